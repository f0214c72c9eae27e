package cli_test

import (
	"cmp"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"unicode"

	"ingot/internal/cli"
	"ingot/internal/cli/config"
)

// twoOrgs gives the fake two orgs, the first with two spaces.
func (f *fake) twoOrgs() {
	byName := func(all ...object) func(r *http.Request) (int, any) {
		return func(r *http.Request) (int, any) {
			var found []any
			for _, one := range all {
				if names := r.URL.Query().Get("names"); names != "" && names != one["name"] {
					continue
				}
				if org := r.URL.Query().Get("organization_guids"); org != "" && one["org"] != nil && org != one["org"] {
					continue
				}
				found = append(found, one)
			}
			return 200, list(found...)
		}
	}
	f.instead["GET /v3/organizations"] = byName(object{"guid": guidOrg, "name": "acme"},
		object{"guid": "globex-guid", "name": "globex"})
	f.instead["GET /v3/spaces"] = byName(object{"guid": guidSpace, "name": "dev", "org": guidOrg},
		object{"guid": "prod-guid", "name": "prod", "org": guidOrg},
		object{"guid": "other-guid", "name": "dev", "org": "globex-guid"})
}

// A login prompts for the org and the space when there are several. Numbers and
// names are accepted; an empty answer skips the question.
func TestLoginAsksForOrgAndSpace(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		args       []string
		in         string
		terminal   bool
		org, space string
		said       string
	}{
		"numbers":         {nil, "admin\nsecret\n1\n2\n", true, "acme", "prod", "1. acme\n2. globex"},
		"names":           {nil, "admin\nsecret\nacme\nnowhere\ndev\n", true, "acme", "dev", "Space 'nowhere' not found."},
		"one space":       {nil, "admin\nsecret\nglobex\n", true, "globex", "dev", "Select an org:"},
		"skipped":         {nil, "admin\nsecret\n\n", true, "", "", "Org (enter to skip): "},
		"input ends":      {nil, "admin\nsecret\n", true, "", "", "Org (enter to skip): "},
		"org given":       {[]string{"-o", "acme"}, "admin\nsecret\nprod\n", true, "acme", "prod", "Select a space:"},
		"no terminal":     {nil, "admin\nsecret\n", false, "", "", ""},
		"all given":       {[]string{"-o", "globex", "-s", "dev"}, "admin\nsecret\n", false, "globex", "dev", ""},
		"out of range":    {nil, "admin\nsecret\n7\n2\n", true, "globex", "dev", "Org '7' not found."},
		"space skipped":   {[]string{"-o", "acme"}, "admin\nsecret\n\n", true, "acme", "", "Space (enter to skip): "},
		"as JSON, no ask": {[]string{"--json"}, "admin\nsecret\n", true, "", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.api.twoOrgs()
			w.in, w.asks = tc.in, tc.terminal
			out, errs, code := w.run(append([]string{"login", "-a", w.api.URL}, tc.args...)...)
			if code != 0 || !strings.Contains(errs, tc.said) {
				t.Fatalf("exit code %d, want 0 and %q\n%s%s", code, tc.said, out, errs)
			}
			c := w.saved(t, "")
			if c.Org.Name != tc.org || c.Space.Name != tc.space {
				t.Errorf("targeted %q / %q\n%s%s", c.Org.Name, c.Space.Name, out, errs)
			}
			if tc.space == "" && !strings.Contains(out, "target -o ORG -s SPACE") && tc.args == nil {
				t.Errorf("it does not say what to do next:\n%s", out)
			}
		})
	}
}

// The name of a space refers to the targeted org.
func TestSendToSpaceOfTheTargetedOrg(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		org, space, want string
		code             int
	}{
		{guidOrg, "dev", "POST /notify/spaces/" + guidSpace, 0}, {"globex-guid", "dev", "POST /notify/spaces/other-guid", 0},
		{"", "dev", "", 1}, {guidOrg, "dve", "", 1}, {"", "6ba7b810-9dad-11d1-80b4-00c04fd430c8",
			"POST /notify/spaces/6ba7b810-9dad-11d1-80b4-00c04fd430c8", 0},
	} {
		w := loggedIn(t)
		w.api.twoOrgs()
		for _, at := range []string{"other-guid", "6ba7b810-9dad-11d1-80b4-00c04fd430c8"} {
			w.api.instead["POST /notify/spaces/"+at] = func(*http.Request) (int, any) { return 200, []any{} }
		}
		w.change(t, func(c *config.Config) { c.Org.GUID = tc.org })
		out, errs, code := w.run("notifications", "send", "disk-full", "--space", tc.space, "--text", "x", "--client",
			"sender", "--client-secret", "x")
		if code != tc.code || tc.want != "" && !w.api.called(tc.want) {
			t.Errorf("%s in %q: %d, calls %v\n%s%s", tc.space, tc.org, code, w.api.calls, out, errs)
		}
		if tc.code != 0 && strings.Contains(strings.Join(w.api.calls, "\n"), "POST /notify/spaces") {
			t.Errorf("%s in %q was sent: %v", tc.space, tc.org, w.api.calls)
		}
	}
}

// An address without a scheme is https, but http on this machine.
func TestLoginWithoutScheme(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	bare := strings.TrimPrefix(w.api.URL, "http://")
	if out, errs, code := w.run("login", "-a", bare, "-u", "admin", "-p", "secret"); code != 0 {
		t.Errorf("exit code %d, want 0\n%s%s", code, out, errs)
	}
	if _, errs, code := w.run("login", bare); code != 2 || !strings.Contains(errs, "login -a http://127.0.0.1:8080") {
		t.Errorf("exit code %d, want 2 and how to log in: %s", code, errs)
	}
	if _, errs, code := w.run("login", "-a", "https://"+bare, "-u", "admin", "-p", "secret"); code != 1 ||
		!strings.Contains(errs, "write http:// before the address") {
		t.Errorf("exit code %d, want 1 and the advice to write http://: %s", code, errs)
	}
}

// A summary is an imperative sentence of at most 60 characters that stands on its
// own.
func TestSummaries(t *testing.T) {
	t.Parallel()
	for name, summary := range cli.Summaries() {
		words := strings.Fields(strings.ToLower(summary))
		for _, w := range words {
			switch strings.Trim(w, ".,;") {
			case "them", "again", "this", "those", "something", "nobody", "somebody", "which":
				t.Errorf("%s: %q points at something else (%s)", name, summary, w)
			}
		}
		if len(summary) > 60 || len(summary) == 0 || !unicode.IsUpper(rune(summary[0])) || strings.HasSuffix(summary, ".") {
			t.Errorf("%s: %q is not a summary", name, summary)
		}
	}
}

// The secret of a client is read without echo, or generated and shown once; a
// given secret is never shown.
func TestClientSecrets(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		args  []string
		in    string
		asks  bool
		sent  string
		shown bool
	}{
		"given":     {[]string{"--secret", "hidden-word"}, "", false, "hidden-word", false},
		"asked for": {nil, "typed-word\n", true, "typed-word", false},
		"nothing":   {nil, "\n", true, "", true},
		"generated": {nil, "", false, "", true},
	} {
		for _, command := range []string{"create-client", "set-client-secret"} {
			w := loggedIn(t)
			w.in, w.asks = tc.in, tc.asks
			call, id := "POST /oauth/clients", "mailer"
			if command == "set-client-secret" {
				call, id = "PUT /oauth/clients/sender/secret", "sender"
			}
			out, errs, code := w.run(append([]string{command, id}, tc.args...)...)
			var body struct {
				Secret string `json:"client_secret"`
				New    string `json:"secret"`
			}
			if err := json.Unmarshal([]byte(w.api.bodies[call]), &body); err != nil || code != 0 {
				t.Fatalf("%s %s: exit code %d, body %v, want 0 and JSON\n%s%s", command, name, code, err, out, errs)
			}
			secret := cmp.Or(body.Secret, body.New)
			if tc.sent != "" && secret != tc.sent || len(secret) < 8 || strings.Contains(out+errs, secret) != tc.shown ||
				strings.Contains(out, "shown only once") != tc.shown {
				t.Errorf("%s %s: sent %q\n%s%s", command, name, secret, out, errs)
			}
		}
	}
}

// An update sends unchanged settings as they were.
func TestUpdateClientKeepsTheRest(t *testing.T) {
	t.Parallel()
	w := loggedIn(t)
	if out, errs, code := w.run("update-client", "sender", "--authorities",
		"emails.write, notifications.write"); code != 0 {
		t.Fatalf("exit code %d, want 0\n%s%s", code, out, errs)
	}
	body := w.api.bodies["PUT /oauth/clients/sender"]
	for _, want := range []string{`"authorities":["emails.write","notifications.write"]`, `"token_salt":"kept"`,
		`"authorized_grant_types":["client_credentials"]`, `"name":"Disk watch"`} {
		if !strings.Contains(body, want) {
			t.Errorf("%s is missing in %s", want, body)
		}
	}
}

// Without the required scopes the client says which login is needed.
func TestClientsForbidden(t *testing.T) {
	t.Parallel()
	w := loggedIn(t)
	w.api.instead["GET /oauth/clients"] = func(*http.Request) (int, any) {
		return 403, object{"error": "insufficient_scope", "error_description": "Insufficient scope for this resource"}
	}
	if _, errs, code := w.run("clients"); code != 1 || !strings.Contains(errs, "--client-credentials") ||
		!strings.Contains(errs, "clients.read") {
		t.Errorf("exit code %d, want 1 and the credentials and scope it takes: %s", code, errs)
	}
}

// A misspelt manifest key is reported with its line, once, before anything is
// changed; other warnings of the platform are shown too.
func TestManifestWarnings(t *testing.T) {
	t.Parallel()
	for _, command := range []string{"push", "apply-manifest"} {
		w := loggedIn(t)
		w.file(t, "manifest.yml",
			"---\napplications:\n- name: shop\n  path: app\n  # small\n  memroy: ((size))\n  host: shop\n")
		w.file(t, "app/shop", "x")
		w.api.instead["GET /v3/jobs/done"] = func(*http.Request) (int, any) {
			return 200, object{"guid": "done", "state": "COMPLETE", "warnings": []any{
				object{"detail": "For application 'shop': manifest key 'memroy' is unknown and ignored; did you mean 'memory'?"},
				object{"detail": "the plan is nearly used up"},
			}}
		}
		_, errs, code := w.run(command, "-f", "manifest.yml", "--var", "size=64M")
		want := "Warning: manifest.yml, line 6: manifest key 'memroy' is unknown and ignored; did you mean 'memory'?\n" +
			"Warning: manifest.yml, line 7: manifest key 'host' is ignored: removed from Cloud Foundry; use " +
			"'routes'\nWarning: the plan is nearly used up\n"
		if code != 0 || errs != want {
			t.Errorf("%s: exit code %d, want 0; stderr is\n%swant\n%s", command, code, errs, want)
		}
	}
}

// When the platform refuses a manifest, the push reports its reason, not that the
// app is missing.
func TestPushOfARefusedManifest(t *testing.T) {
	t.Parallel()
	w := loggedIn(t)
	w.file(t, "app/shop", "x")
	w.api.instead["GET /v3/apps"] = func(*http.Request) (int, any) { return 200, list() }
	w.api.instead["GET /v3/jobs/done"] = func(*http.Request) (int, any) {
		return 200, object{"guid": "done", "state": "FAILED",
			"errors": []any{object{"code": 10010, "title": "CF-ResourceNotFound",
				"detail": "For application 'shop': Service instance 'db' not found"}}}
	}
	_, errs, code := w.run("push", "shop", "--no-manifest", "-p", "app")
	if code != 1 || !strings.Contains(errs, "Service instance 'db' not found") {
		t.Errorf("exit code %d, want 1 and the missing service instance\n%s", code, errs)
	}
}
