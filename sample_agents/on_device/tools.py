"""The devices of one home: the on-device tools of the Vertex AI documentation, on in-memory state."""

import copy

DEVICES = {
    "device_1": {"name": "living room light", "status": "OFF", "brightness": 100},
    "device_2": {"name": "bedroom light", "status": "ON", "brightness": 60},
    "device_3": {"name": "hall light", "status": "ON", "brightness": 100},
    "device_4": {"name": "bedroom air conditioning", "status": "OFF", "schedule": []},
    "device_5": {"name": "blinds", "status": "OPEN", "battery": "empty"},
}
PREFERENCES = {
    "user_w": {"language": "pt"},
    "user_x": {"temperature": 20},
    "user_y": {"temperature": 23},
    "user_z": {"temperature": 18},
}
LOCATIONS = ("Living Room", "Bedroom", "Kitchen")


class DeviceError(Exception):
    """A tool could not do what was asked; the message is for the user."""


class Devices:
    """The devices as they stand. Its methods are the agent's tools."""

    def __init__(self):
        self.devices = copy.deepcopy(DEVICES)
        self.temperatures = {}

    def find_device(self, name):
        """The id of the device called so, None where there is no such device. It is no tool: no call is made."""
        return next((key for key, device in self.devices.items() if device["name"] == name), None)

    def set_device_info(self, device_id, updates):
        """Change what a device is set to; what `updates` does not name stays."""
        if device_id not in self.devices:
            raise DeviceError(f"There is no {device_id} in this home.")
        device = self.devices[device_id]
        if device.get("battery") == "empty":
            raise DeviceError(f"The battery of {device_id} is empty.")
        device.update(updates)
        return dict(device)

    def get_user_preferences(self, user_id):
        """What a user likes."""
        if user_id not in PREFERENCES:
            raise DeviceError(f"I know no preferences of {user_id}.")
        return dict(PREFERENCES[user_id])

    def set_temperature(self, location, temperature):
        """Set the temperature of a room in °C."""
        if location not in LOCATIONS:
            raise DeviceError(f"There is no thermostat in the {location}.")
        self.temperatures[location] = temperature
        return {"location": location, "temperature": temperature}
