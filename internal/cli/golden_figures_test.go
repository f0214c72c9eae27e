package cli_test

// figureScenarios are about numbers of deliveries.
var figureScenarios = []scenario{
	{"notifications-figures", []string{"notifications", "figures", "--by", "domain", "--hours", "2", "--client", "sender",
		"--client-secret", "x"}},
	{"notifications-figures-each", []string{"notifications", "figures", "--by", "domain", "--each", "--hours", "2",
		"--client", "sender", "--client-secret", "x"}},
	{"notifications-figures-reactions", []string{"notifications", "figures", "--by", "domain", "--hours", "2", "--kind",
		"news", "--client", "sender", "--client-secret", "x"}},
	{"notifications-figures-wrong", []string{"notifications", "figures", "--hours", "2", "--days", "2"}},
}

// deliveryFigures are the fake's answer, of kinds that count opens and clicks or not.
func deliveryFigures(reactions bool) object {
	points := func(accepted, delivered, retried int) object {
		none := []int{0, 0}
		of := object{"accepted": []int{0, accepted}, "delivered": []int{0, delivered}, "failed": none,
			"undeliverable": none, "unsubscribed": none, "canceled": none, "skipped": none,
			"digested": none, "retried": []int{retried, 0}, "opened": none, "clicked": none, "opens": none, "clicks": none}
		if reactions {
			of["opened"], of["clicked"] = []int{0, delivered / 2}, []int{0, delivered / 4}
			of["opens"], of["clicks"] = []int{0, delivered}, []int{0, delivered / 4}
		}
		return of
	}
	return object{"by": "domain", "period": "hour", "times": []string{"2026-11-19T09:00:00Z", "2026-11-19T10:00:00Z"},
		"total": points(130, 125, 2), "groups": []any{
			object{"domain": "example.org", "figures": points(100, 98, 2)},
			object{"domain": "\x1b[31mred", "figures": points(20, 20, 0)}, object{"domain": "", "figures": points(3, 0, 0)},
		}, "rest": points(7, 7, 0)}
}
