package cli_test

func init() {
	own := []string{"--client", "sender", "--client-secret", "x"}
	send := func(name string, args ...string) {
		args = append(append([]string{"notifications", "send", "disk-full", "--email", "ann@example.com"}, args...), own...)
		scenarios = append(scenarios, struct {
			name string
			args []string
		}{name, args})
	}
	send("notifications-send-files", "--html", "<img src='cid:logo'>", "--attach", "mail.txt", "--inline", "logo=mail.txt")
	send("notifications-send-invitation", "--text", "t", "--thread", "order-1", "--event",
		`{"uid":"1","start":"2026-12-24"}`)
	send("notifications-send-no-event", "--text", "t", "--event", "tomorrow")
	send("notifications-send-no-file", "--text", "t", "--attach", "none.pdf")
	send("notifications-send-inline-wrong", "--text", "t", "--inline", "logo.png")
}

// mailState is what a server knows of mail servers and receiving domains.
func mailState() object {
	return object{
		"routes": []object{
			{"name": "main", "server": "mail.example.com:587", "weight": 3, "state": "closed", "failures": 0,
				"delivered": 20311},
			{"name": "second", "server": "mail.example.net:25", "weight": 0, "state": "open", "failures": 5,
				"reason": "timeout", "until": "2026-11-16T10:20:00Z", "delivered": 0},
			{"name": "own", "server": "10.0.0.3:25", "weight": 1, "domains": []string{"corp.example"},
				"state": "half-open", "failures": 6, "reason": "connection refused", "delivered": 12},
		},
		"domains": []object{
			{"domain": "example.org", "slow": false, "answer_ms": 12, "rate": 50, "lowered": false, "sending": 0,
				"connections": 2},
			{"domain": "slow.example", "slow": true, "answer_ms": 4200, "rate": 12.5, "lowered": true,
				"reason": "450 4.7.1 too many messages", "sending": 6, "connections": 6},
		},
		"warm_up":   object{"first": 50, "growth": 1.5, "days": 30},
		"postponed": object{"rate": 120, "slow": 31, "warm_up": 0, "busy_answers": 14},
	}
}
