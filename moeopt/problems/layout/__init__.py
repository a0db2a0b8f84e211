"""Layout and schedule decided together: what is resident, striped or localized (TriMoE 4.3)."""
