package cli_test

var providerScenarios = []scenario{
	{"notifications-providers", []string{"notifications", "providers", "--client", "sender", "--client-secret", "x"}},
	{"notifications-providers-set", []string{"notifications", "providers", "--set", "gateway", "--definition",
		`{"url":"https://sms.example.com/messages","json":{"to":"{{phone}}","text":"{{text}}"}}`,
		"--secret", "token=0123456789", "--client", "sender", "--client-secret", "x"}},
	{"notifications-providers-show", []string{"notifications", "providers", "--show", "gateway", "--client", "sender",
		"--client-secret", "x"}},
	{"notifications-providers-delete", []string{"notifications", "providers", "--delete", "platform", "--shared",
		"--client", "sender", "--client-secret", "x"}},
	{"notifications-providers-wrong", []string{"notifications", "providers", "--set", "gateway"}},
}

// providersAnswer answers calls about providers and destinations; the status is 0 for others.
func providersAnswer(call string) (int, any) {
	switch call {
	case "GET /notify/destinations":
		return 200, object{"destinations": []any{
			object{"channel": "webhook", "url": "https://app.example.com/…", "updated_at": "2026-11-18T12:00:00Z"},
			object{"channel": "chat", "url": "https://hooks.slack.com/…", "format": "slack",
				"updated_at": "2026-11-18T12:00:00Z"},
		}}
	case "PUT /notify/destinations/webhook":
		return 200, object{"channel": "webhook", "url": "https://app.example.com/…", "secret": "generated-secret",
			"updated_at": "2026-11-18T12:00:00Z"}
	case "DELETE /notify/destinations/chat":
		return 204, nil
	case "GET /notify/providers":
		return 200, providers()
	case "PUT /notify/providers/gateway", "GET /notify/providers/gateway":
		return 200, gateway()
	case "DELETE /notify/providers/platform":
		return 204, nil
	}
	return 0, nil
}

func gateway() object {
	return object{"name": "gateway", "channel": "sms", "url": "https://sms.example.com/messages", "weight": 3,
		"secrets": []any{"token"}}
}

func providers() object {
	return object{"providers": []any{
		object{"name": "gateway", "channel": "sms", "url": "https://sms.example.com/messages", "weight": 3,
			"health": object{"state": "open", "failures": 5, "reason": "503 Service Unavailable"}},
		object{"name": "reserve", "channel": "sms", "url": "https://texts.example.net/send", "weight": 0, "disabled": true,
			"health": object{"state": "closed", "failures": 0}},
		object{"name": "platform", "channel": "sms", "shared": true},
	}}
}
