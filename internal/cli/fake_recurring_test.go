package cli_test

// recurringSend is a recurring send of the fake server.
func recurringSend(status string) object {
	next := []any{}
	if status == "active" {
		next = []any{"2026-11-23T09:00:00+01:00", "2026-11-30T09:00:00+01:00"}
	}
	return object{"name": "weekly", "client_id": "sender", "status": status, "cron": "0 9 * * mon",
		"zone": "Europe/Berlin", "next_times": next, "runs": 3, "failures": 1,
		"problem": "The kind is not registered", "kind_id": "disk-full", "subject": "Tidy up",
		"last_send_id": "send-1", "created_at": "2026-11-01T12:00:00Z",
		"updated_at": "2026-11-01T12:00:00Z"}
}
