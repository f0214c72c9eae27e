package cli_test

import "slices"

var channelScenarios = slices.Concat(providerScenarios, browserScenarios)

var browserScenarios = []scenario{
	{"notifications-browsers", []string{"notifications", "browsers"}},
	{"notifications-browsers-remove", []string{"notifications", "browsers", "--remove", "5d41402abc4b2a76"}},
	{"notifications-browsers-key", []string{"notifications", "browsers", "--key"}},
	{"notifications-browsers-wrong", []string{"notifications", "browsers", "--key", "--remove", "x"}},
}

// browsersAnswer answers calls about push subscriptions; the status is 0 for others.
func browsersAnswer(call string) (int, any) {
	switch call {
	case "GET /notify/push_subscriptions":
		return 200, object{"push_subscriptions": []any{
			object{"id": "9b74c9897bac770f", "client_id": "shop", "service": "fcm.googleapis.com",
				"label": "Chrome on the laptop", "created_at": "2026-11-18T12:00:00Z", "updated_at": "2026-11-19T12:00:00Z"},
			object{"id": "5d41402abc4b2a76", "client_id": "shop", "service": "updates.push.services.mozilla.com", "label": "",
				"created_at": "2026-11-18T12:00:00Z", "updated_at": "2026-11-18T12:00:00Z"},
			object{"id": "7c9e6679f7425d92", "client_id": "shop", "type": "device", "service": "ntfy", "label": "Pixel",
				"created_at": "2026-11-17T12:00:00Z", "updated_at": "2026-11-17T12:00:00Z"},
		}}
	case "GET /notify/push_key":
		return 200, object{"public_key": "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4"}
	case "DELETE /notify/push_subscriptions/5d41402abc4b2a76":
		return 204, nil
	}
	return 0, nil
}
