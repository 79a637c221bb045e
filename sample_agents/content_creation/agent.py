"""The content-creation agent of the Vertex AI documentation: campaigns, budgets and posts.

It answers from a script: patterns find out what is wanted, the tools of `tools.py` do it, no model is asked.
`assistant` is an object that can be called, made from a class with a setting; each call starts from the same campaigns.
"""

import re

from .tools import CampaignError, Studio

NO_RULE = "I answer from a script and have no rule for this."
MONTHS = ("January", "February", "March", "April", "May", "June")
MONTHS += ("July", "August", "September", "October", "November", "December")


class ContentAssistant:
    """The agent: call it with a prompt. `greeting` opens each post that it writes."""

    def __init__(self, greeting):
        self.greeting = greeting

    def __call__(self, prompt):
        """Do what the prompt asks; tell what was done and which tools were called."""
        draft = Draft(Studio(), self.greeting)
        try:
            response = draft.respond(prompt)
        except CampaignError as problem:
            response = f"I could not do that. {problem}"
        return {"response": response, "predicted_trajectory": draft.calls}


assistant = ContentAssistant(greeting="Hello!")


class Draft:
    """Works on one prompt, and writes down each tool call before making it."""

    def __init__(self, studio, greeting):
        self.studio = studio
        self.greeting = greeting
        self.calls = []

    def respond(self, prompt):
        """Work on the campaign that the prompt names."""
        name = self._search(r"campaign (\w+)", prompt)
        if name and re.search(r"\bre-?schedule\b|\bbudget\b", prompt, re.IGNORECASE):
            return self.update(name, prompt)
        if name and re.search(r"\b(?:write|draft)\b", prompt, re.IGNORECASE):
            return self.write(name, prompt)
        return NO_RULE

    def update(self, name, prompt):
        """Change when, where and for how much a campaign runs."""
        campaign = self.use(self.studio.find_campaign, name=name)
        updates = self.updates(campaign, prompt)
        if not updates:
            return NO_RULE
        self.use(self.studio.update_campaign, campaign_id=campaign["campaign_id"], updates=updates)
        wording = {"recurrence": "runs {}", "site": "site {}", "budget": "budget {:.2f}", "start": "only on {}"}
        changes = [wording[key].format(value) for key, value in updates.items() if key in wording]
        return f"Campaign {campaign['name']}: {', '.join(changes)}."

    def updates(self, campaign, prompt):
        """The changes that the prompt asks for."""
        updates = {}
        if re.search(r"\bone-off\b|\bonce\b", prompt, re.IGNORECASE):
            updates["recurrence"] = "once"
        site = self._search(r"\b(?:social media )?site (\w+)", prompt)
        if site:
            updates["site"] = site.upper()
        percent = self._search(r"(\d+) ?%", prompt)
        if percent:
            updates["budget"] = campaign["budget"] * (100 - int(percent)) / 100
        day = re.search(rf"\bonly on (\d+) ({'|'.join(MONTHS)}) (\d{{4}})", prompt)
        if day:
            updates["start"] = updates["end"] = f"{day[3]}-{MONTHS.index(day[2]) + 1:02}-{int(day[1]):02}"
        return updates

    def write(self, name, prompt):
        """Write the post of a campaign for a site."""
        campaign = self.use(self.studio.find_campaign, name=name)
        site = (self._search(r"\bsite (\w+)", prompt) or campaign["site"]).upper()
        about = self._search(r"\babout (.+?)[.?]?$", prompt) or "something new"
        text = f"{self.greeting} {campaign['name']} brings you {about}."
        self.use(self.studio.write_post, campaign_id=campaign["campaign_id"], site=site, text=text)
        return f"Queued for {site}: {text}"

    def use(self, tool, **arguments):
        """Call a tool, having written down that it is called."""
        self.calls.append({"tool_name": tool.__name__, "tool_input": arguments})
        return tool(**arguments)

    def _search(self, pattern, text):
        match = re.search(pattern, text, re.IGNORECASE)
        return match and match.group(1)
