"""Arrays, traces, derivatives: what everything else stands on."""
