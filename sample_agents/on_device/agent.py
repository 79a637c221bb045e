"""The on-device assistant of the Vertex AI documentation: switches, schedules and temperatures.

It answers from a script: the first rule whose pattern is found in the prompt is applied, no model is asked. `answer`
has the form that `EvalTask.evaluate(runnable=...)` calls: a prompt in, `response` and `predicted_trajectory` out. Each
prompt finds the devices as they come from the factory; nothing is remembered.
"""

import re

from .tools import DeviceError, Devices

NO_RULE = "I answer from a script and have no rule for this."


def answer(prompt):
    """Do what the prompt asks; tell what was done and which tools were called."""
    assistant = Assistant(Devices())
    try:
        response = assistant.respond(prompt)
    except DeviceError as problem:
        response = f"I could not do that. {problem}"
    return {"response": response, "predicted_trajectory": assistant.calls}


def hour(text):
    """The time of day that "11 pm" names, as "23:00"."""
    number, half = re.fullmatch(r"(\d+) ?([ap])m", text, re.IGNORECASE).groups()
    return f"{int(number) % 12 + (12 if half in 'pP' else 0):02}:00"


class Assistant:
    """Answers one prompt, and writes down each tool call before making it."""

    def __init__(self, devices):
        self.devices = devices
        self.calls = []

    def respond(self, prompt):
        """Apply the first rule that fits."""
        rules = (
            (r"schedule the (.+?) on between (\d+ ?[ap]m) and (\d+ ?[ap]m)", self.schedule),
            (r"turn (on|off) (device_\d+)", self.switch),
            (r"turn the ([\w ]+?) (on|off)", lambda name, status: self.switch(status, self.named(name))),
            (r"dim the ([\w ]+?) to (\d+) ?%", self.dim),
            (r"set the temperature in the ([\w ]+?) to (\d+) degrees", self.set_temperature),
            (r"(user_\w+).* set the temperature in the ([\w ]+?) to my", self.set_preferred_temperature),
        )
        for pattern, rule in rules:
            match = re.search(pattern, prompt, re.IGNORECASE)
            if match:
                return rule(*match.groups())
        return NO_RULE

    def schedule(self, name, start, end):
        """Let a device be on between two hours of the day and off otherwise."""
        device_id = self.named(name)
        hours = {"from": hour(start), "until": hour(end), "status": "ON", "otherwise": "OFF"}
        self.use(self.devices.set_device_info, device_id=device_id, updates={"schedule": [hours]})
        return f"The {name} is scheduled on from {hours['from']} until {hours['until']} and off otherwise."

    def switch(self, status, device_id):
        """Turn a device on or off."""
        self.use(self.devices.set_device_info, device_id=device_id, updates={"status": status.upper()})
        return f"I have turned {device_id} {status.lower()}."

    def dim(self, name, percent):
        """Dim a light; a light that is dimmed is on."""
        updates = {"status": "ON", "brightness": int(percent)}
        self.use(self.devices.set_device_info, device_id=self.named(name), updates=updates)
        return f"The {name} is at {percent} %."

    def set_temperature(self, room, degrees):
        """Set the temperature that the user named."""
        return self._regulate(room.title(), int(degrees))

    def set_preferred_temperature(self, user_id, room):
        """Set the temperature that the user likes.

        Not every user has told one: `designed_error_no_preferred_temperature` shows the KeyError that escapes.
        """
        preferences = self.use(self.devices.get_user_preferences, user_id=user_id.lower())
        return self._regulate(room.title(), preferences["temperature"])

    def named(self, name):
        """The id of the device that the user calls so."""
        device_id = self.devices.find_device(name.lower())
        if device_id is None:
            raise DeviceError(f"I know no device called {name}.")
        return device_id

    def use(self, tool, **arguments):
        """Call a tool, having written down that it is called."""
        self.calls.append({"tool_name": tool.__name__, "tool_input": arguments})
        return tool(**arguments)

    def _regulate(self, room, temperature):
        self.use(self.devices.set_temperature, location=room, temperature=temperature)
        return f"I have set the temperature in the {room} to {temperature} °C."
