package cli_test

import (
	"net/http"
	"slices"
	"strings"
)

// audienceScenarios are about topics, and about limits of what a recipient gets.
var audienceScenarios = slices.Concat(throttleScenarios, []scenario{
	{"notifications-topics", []string{"notifications", "topics",
		"--client", "sender", "--client-secret", "x"}},
	{"notifications-topics-set", []string{"notifications", "topics", "--set", "releases", "--description",
		"New releases", "--client", "sender", "--client-secret", "x"}},
	{"notifications-topics-subscribe", []string{"notifications", "topics", "--subscribe", "releases",
		"--user", "user-guid", "--email", "dora@example.org", "--client", "sender", "--client-secret", "x"}},
	{"notifications-topics-unsubscribe", []string{"notifications", "topics", "--unsubscribe", "releases",
		"--user", "user-guid", "--email", "dora@example.org", "--client", "sender", "--client-secret", "x"}},
	{"notifications-topics-subscribers", []string{"notifications", "topics", "--subscribers", "releases",
		"--client", "sender", "--client-secret", "x"}},
	{"notifications-topics-delete", []string{"notifications", "topics", "--delete", "releases",
		"--client", "sender", "--client-secret", "x"}},
	{"notifications-topics-wrong", []string{"notifications", "topics", "--subscribe", "releases"}},
	{"notifications-send-topic", []string{"notifications", "send", "disk-full", "--topic", "releases", "--text", "x",
		"--client", "sender", "--client-secret", "x"}},
	{"notifications-preferences-topics", []string{"notifications", "preferences", "--join", "sender/releases",
		"--leave", "other/news"}},
})

// topicAnswer is what the fake server answers about topics.
func topicAnswer(r *http.Request) (int, any) {
	topic := object{"name": "releases", "client_id": "sender", "description": "New releases", "self_subscribe": true,
		"subscribers": 1204, "created_at": stamp, "updated_at": stamp}
	all := strings.HasSuffix(r.URL.Path, "/subscribers")
	switch {
	case r.Method == http.MethodDelete:
		return 204, nil
	case r.Method == http.MethodPost:
		return 200, object{"subscribed": 1, "already": 0, "left": 1}
	case all && r.URL.Query().Get("after") == "":
		return 200, object{"subscribers": []any{object{"user": "user-guid", "since": stamp}},
			"_links": object{"next": object{"href": "/topics/releases/subscribers?after=x"}}}
	case all:
		return 200, object{"subscribers": []any{object{"email": "dora@example.org", "since": stamp}}, "_links": object{}}
	case strings.HasSuffix(r.URL.Path, "/topics"):
		return 200, object{"topics": []any{topic}, "_links": object{}}
	}
	return 200, topic
}

// recipientData is what is stored about a recipient.
func recipientData() object {
	topics := []any{
		object{"client_id": "sender", "topic": "releases", "subscribed": true, "since": stamp, "kept": false},
		object{"client_id": "sender", "topic": "staff", "subscribed": false, "since": stamp, "kept": false}}
	of := message()
	of["client_id"], of["kind_id"], of["subject"], of["received_at"] = "sender", "disk-full", "Disk full", stamp
	return object{"suppressions": []any{object{"email": "dora@example.org", "source": "bounce", "reason": "5.1.1",
		"created_at": stamp}}, "quiet_hours": []any{object{"from": "22:00", "to": "07:00", "zone": "Europe/Berlin"}},
		"unsubscribed": []any{object{"client_id": "sender", "kind_id": "news", "everything": false,
			"channels": []any{"email"}, "kept": true}}, "topics": topics,
		"lists": []any{}, "scheduled": []any{}, "inbox": []any{},
		"messages": []any{of}}
}

// topicPreferences are the topics in a user's preferences.
func topicPreferences() object {
	return object{"releases": object{"description": "New releases", "source_description": "Disk watch",
		"subscribed": true}}
}
