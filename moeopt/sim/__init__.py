"""Where instances come from: machines, models, traces, costs and generators."""
