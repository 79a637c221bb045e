"""The home and what can be done with it: ADK's home-automation tools on real, in-memory state.

The devices live in the dictionary that is handed in, the state of the session. So a case can start in a home of its
own, and what the agent changed can be held against `final_session_state`.
"""

import copy

COLDEST, WARMEST = 5, 30  # °C that the thermostats accept

DEFAULT_DEVICES = {
    "device_1": {"kind": "light", "location": "Living Room", "status": "OFF"},
    "device_2": {"kind": "light", "location": "Bedroom", "status": "ON"},
    "device_3": {"kind": "light", "location": "Kitchen", "status": "ON"},
    "device_4": {"kind": "fan", "location": "Kitchen", "status": "ON"},
    "device_5": {"kind": "light", "location": "Bedroom", "status": "ON", "name": "bedside"},
    "device_6": {"kind": "heater", "location": "Garage", "status": "OFF", "reachable": False},
}
DEFAULT_TEMPERATURES = {"Bedroom": 18, "Living Room": 22, "Kitchen": 20, "Garage": 9}


class HomeError(Exception):
    """A tool could not do what was asked. `reason` is one word for the agent, `facts` what it may tell the user."""

    def __init__(self, reason, **facts):
        super().__init__(f"{reason}: {', '.join(f'{name} {value}' for name, value in facts.items())}")
        self.reason = reason
        self.facts = facts


class Home:
    """One home. Its methods are the agent's tools."""

    def __init__(self, state):
        self._devices = state.setdefault("devices", copy.deepcopy(DEFAULT_DEVICES))
        self._temperatures = state.setdefault("temperatures", dict(DEFAULT_TEMPERATURES))

    def list_devices(self, location):
        """The devices of a room, by id."""
        return {key: dict(device) for key, device in self._devices.items() if device["location"] == location}

    def get_device_info(self, device_id):
        """Where a device is and whether it is ON or OFF."""
        if device_id not in self._devices:
            raise HomeError("unknown_device", device_id=device_id)
        return dict(self._devices[device_id])

    def set_device_info(self, location, device_id, status):
        """Switch a device. `location` guards against switching the wrong one."""
        device = self.get_device_info(device_id)
        if device["location"] != location:
            raise HomeError("wrong_room", device_id=device_id, room=location)
        if not device.get("reachable", True):
            raise HomeError("unreachable", device_id=device_id)
        self._devices[device_id]["status"] = status
        return {"device_id": device_id, "status": status}

    def get_temperature(self, location):
        """The temperature of a room in °C."""
        if location not in self._temperatures:
            raise HomeError("no_thermostat", room=location)
        return self._temperatures[location]

    def set_temperature(self, location, temperature):
        """Set the thermostat of a room, in °C."""
        self.get_temperature(location)
        if not COLDEST <= temperature <= WARMEST:
            raise HomeError("out_of_range", temperature=temperature, coldest=COLDEST, warmest=WARMEST)
        self._temperatures[location] = temperature
        return {"location": location, "temperature": temperature}
