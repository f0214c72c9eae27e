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
