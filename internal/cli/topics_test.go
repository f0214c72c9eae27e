package cli_test

import (
	"encoding/json"
	"net/http"
	"testing"
)

// TestSetTopic: a change of a topic keeps what it does not name.
func TestSetTopic(t *testing.T) {
	t.Parallel()
	const get, put = "GET /notify/topics/releases", "PUT /notify/topics/releases"
	type topic struct {
		Description   string `json:"description"`
		SelfSubscribe bool   `json:"self_subscribe"`
	}
	for name, c := range map[string]struct {
		have *topic
		args []string
		want topic
	}{
		"a new one":          {nil, nil, topic{"", true}},
		"a new closed one":   {nil, []string{"--closed", "--description", "New"}, topic{"New", false}},
		"text of a closed":   {&topic{"Old", false}, []string{"--description", "New"}, topic{"New", false}},
		"text of an open":    {&topic{"Old", true}, []string{"--description", "New"}, topic{"New", true}},
		"text is removed":    {&topic{"Old", false}, []string{"--description", ""}, topic{"", false}},
		"closed":             {&topic{"Old", true}, []string{"--closed"}, topic{"Old", false}},
		"closed twice":       {&topic{"Old", false}, []string{"--closed"}, topic{"Old", false}},
		"opened":             {&topic{"Old", false}, []string{"--open"}, topic{"Old", true}},
		"nothing is given":   {&topic{"Old", false}, nil, topic{"Old", false}},
		"everything at once": {&topic{"Old", false}, []string{"--open", "--description", "New"}, topic{"New", true}},
	} {
		w := loggedIn(t)
		w.api.instead[get] = func(*http.Request) (int, any) {
			if c.have == nil {
				return http.StatusNotFound, object{"errors": []string{"The topic does not exist"}}
			}
			return http.StatusOK, c.have
		}
		_, errs, code := w.run(append([]string{"notifications", "topics", "--set", "releases", "--client", "sender",
			"--client-secret", "x"}, c.args...)...)
		var got topic
		if err := json.Unmarshal([]byte(w.api.bodies[put]), &got); err != nil || code != 0 || got != c.want {
			t.Errorf("%s: %+v, %v, exit code %d %s, want %+v", name, got, err, code, errs, c.want)
		}
	}
	// What cannot be read is not replaced.
	w := loggedIn(t)
	w.api.instead[get] = func(*http.Request) (int, any) {
		return http.StatusForbidden, object{"errors": []string{"no"}}
	}
	_, _, code := w.run("notifications", "topics", "--set", "releases", "--closed", "--client", "sender",
		"--client-secret", "x")
	if sent := w.api.bodies[put]; code == 0 || sent != "" {
		t.Errorf("a topic that cannot be read: exit code %d, sent %q", code, sent)
	}
	for _, args := range [][]string{{"--open"}, {"--closed"}, {"--description", ""},
		{"--set", "x", "--open", "--closed"}} {
		w := loggedIn(t)
		if _, _, code := w.run(append([]string{"notifications", "topics"}, args...)...); code == 0 || len(w.api.calls) > 0 {
			t.Errorf("%q: exit code %d after %q", args, code, w.api.calls)
		}
	}
}
