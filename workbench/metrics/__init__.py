"""How a case is judged: one file for each family of metrics, the registry of all of them, and `judge_case`.

A metric reads finished turns and gives scores; running the agent, storing results and deciding about the case are left
to the engine. Texts are compared in a helper process of their own (`text_worker`), custom metric functions run in the
worker of the target.
"""
