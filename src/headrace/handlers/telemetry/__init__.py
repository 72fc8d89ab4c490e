"""Client telemetry (KIP-714), served with `client.telemetry.enable`:

`client_instances`              clients, the metrics they shall push, and when
`get_telemetry_subscriptions`   GetTelemetrySubscriptions
`push_telemetry`                PushTelemetry
"""
