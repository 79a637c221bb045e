"""Marketing campaigns, in memory: what they cost, where and when they run, and what they say."""

import copy
from datetime import date

CAMPAIGNS = {
    "campaign_x": {
        "name": "X",
        "budget": 1000.0,
        "site": "Z",
        "recurrence": "weekly",
        "start": "2024-11-04",
        "end": "2025-01-31",
    },
    "campaign_s": {
        "name": "Spring",
        "budget": 500.0,
        "site": "Y",
        "recurrence": "once",
        "start": "2025-03-20",
        "end": "2025-03-20",
    },
}
SITES = {"Y": 120, "Z": 280}  # the longest post of each site, in characters


class CampaignError(Exception):
    """A tool could not do what was asked; the message is for the user."""


class Studio:
    """The campaigns as they stand. Its methods are the agent's tools."""

    def __init__(self):
        self.campaigns = copy.deepcopy(CAMPAIGNS)

    def find_campaign(self, name):
        """A campaign by the name people use, with its id."""
        for campaign_id, campaign in self.campaigns.items():
            if campaign["name"].lower() == name.lower():
                return {"campaign_id": campaign_id, **campaign}
        raise CampaignError(f"There is no campaign {name}.")

    def update_campaign(self, campaign_id, updates):
        """Change a campaign; what `updates` does not name stays.

        A day that the calendar does not have raises ValueError, for which the agent is not prepared: see
        `designed_error_31_november`.
        """
        for key in updates.keys() & {"start", "end"}:
            date.fromisoformat(updates[key])
        if "site" in updates:
            longest_post(updates["site"])
        self.campaigns[campaign_id].update(updates)
        return dict(self.campaigns[campaign_id])

    def write_post(self, campaign_id, site, text):
        """Put a text in the queue of a site."""
        longest = longest_post(site)
        if len(text) > longest:
            raise CampaignError(f"A post on {site} has at most {longest} characters.")
        self.campaigns[campaign_id].setdefault("posts", []).append({"site": site, "text": text})
        return {"site": site, "characters": len(text)}


def longest_post(site):
    """How many characters a post on a site may have."""
    if site not in SITES:
        raise CampaignError(f"We have no account on {site}.")
    return SITES[site]
