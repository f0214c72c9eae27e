package cli_test

import (
	"net/http"
	"strings"
)

// throttleScenarios are about limits and quiet hours.
var throttleScenarios = []scenario{
	{"notifications-throttle", []string{"notifications", "throttle", "comments", "--client", "sender",
		"--client-secret", "x"}},
	{"notifications-throttle-set", []string{"notifications", "throttle", "comments", "--limit", "3", "--window", "1h",
		"--over", "digest", "--channels", "email", "--client", "sender", "--client-secret", "x"}},
	{"notifications-throttle-delete", []string{"notifications", "throttle", "comments", "--delete", "--client", "sender",
		"--client-secret", "x"}},
	{"notifications-throttle-wrong", []string{"notifications", "throttle", "comments", "--delete", "--limit", "3"}},
	{"notifications-retention", []string{"notifications", "retention", "comments", "--client", "sender",
		"--client-secret", "x"}},
	{"notifications-retention-set", []string{"notifications", "retention", "comments", "--keep", "90d", "--client",
		"sender", "--client-secret", "x"}},
	{"notifications-retention-delete", []string{"notifications", "retention", "comments", "--delete", "--client", "sender",
		"--client-secret", "x"}},
	{"notifications-retention-wrong", []string{"notifications", "retention", "comments", "--delete", "--keep", "90d"}},
	{"notifications-tracking", []string{"notifications", "tracking", "comments", "--client", "sender",
		"--client-secret", "x"}},
	{"notifications-tracking-set", []string{"notifications", "tracking", "comments", "--opens", "--clicks", "--client",
		"sender", "--client-secret", "x"}},
	{"notifications-tracking-delete", []string{"notifications", "tracking", "comments", "--delete", "--client", "sender",
		"--client-secret", "x"}},
	{"notifications-tracking-wrong", []string{"notifications", "tracking", "comments", "--delete", "--opens"}},
	{"notifications-preferences-quiet", []string{"notifications", "preferences", "--quiet-hours", "22:00-07:00", "--zone",
		"Europe/Berlin", "--quiet-days", "mon,tue", "--quiet-channels", "email"}},
	{"notifications-preferences-loud", []string{"notifications", "preferences", "--quiet-hours", "off"}},
	{"notifications-preferences-zone", []string{"notifications", "preferences", "--quiet-hours", "22:00-07:00"}},
}

// throttleAnswer answers requests about the limit of a kind.
func throttleAnswer(method string) (int, any) {
	switch method {
	case http.MethodDelete:
		return 204, nil
	case http.MethodPut:
		return 200, object{"throttle": object{"limit": 3, "window": "1h", "over": "digest", "channels": []any{"email"}},
			"description": "email at most 3 in 1h, others collected"}
	}
	return 200, object{"throttle": nil, "description": "not limited"}
}

// retentionAnswer answers requests about the retention of a kind.
func retentionAnswer(method string) (int, any) {
	switch method {
	case http.MethodDelete:
		return 204, nil
	case http.MethodPut:
		return 200, object{"retention": "90d", "description": "kept for 90d"}
	}
	return 200, object{"retention": nil, "description": "kept for 7d, as the server keeps all"}
}

// ruleAnswer answers requests about a rule of a kind.
func ruleAnswer(r *http.Request) (int, any) {
	switch {
	case strings.HasSuffix(r.URL.Path, "/tracking"):
		return trackingAnswer(r.Method)
	case strings.HasSuffix(r.URL.Path, "/retention"):
		return retentionAnswer(r.Method)
	}
	return throttleAnswer(r.Method)
}

// trackingAnswer answers requests about what is counted of a kind.
func trackingAnswer(method string) (int, any) {
	switch method {
	case http.MethodDelete:
		return 204, nil
	case http.MethodPut:
		return 200, object{"opens": true, "clicks": true,
			"description": "opens and clicks are counted, of mail to recipients who allow it"}
	}
	return 200, object{"opens": false, "clicks": false, "description": "neither opens nor clicks are counted"}
}
