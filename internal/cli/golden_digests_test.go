package cli_test

import "net/http"

// scenario is a command whose output is kept.
type scenario struct {
	name string
	args []string
}

// digestScenarios are about digests of notifications.
var digestScenarios = []scenario{
	{"notifications-digest", []string{"notifications", "digest", "comments", "--client", "sender",
		"--client-secret", "x"}},
	{"notifications-digest-set", []string{"notifications", "digest", "comments", "--window", "1h", "--max", "50", "--key",
		"thread.id", "--channels", "email", "--client", "sender", "--client-secret", "x"}},
	{"notifications-digest-delete", []string{"notifications", "digest", "comments", "--delete", "--client", "sender",
		"--client-secret", "x"}},
	{"notifications-digest-choice", []string{"notifications", "digest", "comments", "--choice", "daily,weekly", "--client",
		"sender", "--client-secret", "x"}},
	{"notifications-preferences-digest", []string{"notifications", "preferences", "--digest", "sender/news=daily"}},
	{"notifications-preferences-digest-wrong", []string{"notifications", "preferences", "--digest", "sender/news"}},
	{"notifications-digest-wrong", []string{"notifications", "digest", "comments", "--delete", "--max", "3"}},
}

// digestAnswer answers requests about the digest of a kind.
func digestAnswer(method string) (int, any) {
	switch method {
	case http.MethodDelete:
		return 204, nil
	case http.MethodPut:
		return 200, object{"digest": object{"window": "1h", "max": 50, "key": "thread.id"},
			"description": "collected by thread.id for 1h, at most 50"}
	}
	return 200, object{"digest": nil, "description": "not collected"}
}
