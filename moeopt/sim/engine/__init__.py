"""An event-driven simulation of tasks on resources, and what runs on it: plans and solutions."""
