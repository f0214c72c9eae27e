package cli_test

import (
	"net/http"
	"runtime"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"ingot/internal/cli"
	"ingot/internal/cli/config"
)

// No message about a wrong number, size, duration or switch names Go's types or functions.
func TestWrongNumbers(t *testing.T) {
	t.Parallel()
	cases := cli.NumberCases()
	if len(cases) < 100 {
		t.Fatalf("only %d flags and arguments were found", len(cases))
	}
	w := loggedIn(t)
	for _, args := range cases {
		out, errs, code := w.run(args...)
		if code == 0 {
			t.Errorf("%q was accepted:\n%s", args, out)
		}
		for _, bad := range []string{"strconv", "parsing", "invalid syntax", "expected *", "(expected", "int64", "float64",
			"bool flag", "time.Duration", "cli.", "time: "} {
			if strings.Contains(errs, bad) {
				t.Errorf("%q: %q in %s", args, bad, errs)
			}
		}
	}
	for line, want := range map[string]string{
		"scale shop -i many":                     `ingot: -i: "many" is not a whole number (see: ingot scale --help)`,
		"scale shop -i 99999999999999999999":     `ingot: -i: "99999999999999999999" is out of range (see: ingot scale --help)`,
		"terminate-task shop many":               `ingot: "many" is not a whole number (see: ingot terminate-task --help)`,
		"apps --json=yes":                        `ingot: --json takes no value (see: ingot apps --help)`,
		"push -m":                                `ingot: -m needs a value (see: ingot push --help)`,
		"push -m --no-start":                     `ingot: -m needs a value, but is followed by --no-start (see: ingot push --help)`,
		"push shop --memory 64M":                 `ingot: unknown flag --memory; did you mean -m? (see: ingot push --help)`,
		"push shop --buildpack go_buildpack":     `ingot: unknown flag --buildpack; did you mean -b? (see: ingot push --help)`,
		"push shop --disk-quota 1G":              `ingot: unknown flag --disk-quota; did you mean -k? (see: ingot push --help)`,
		"push shop --docker-image nginx":         `ingot: unknown flag --docker-image; did you mean -o? (see: ingot push --help)`,
		"push shop --memroy 64M":                 `ingot: unknown flag --memroy; did you mean -m? (see: ingot push --help)`,
		"scale shop --instances 2":               `ingot: unknown flag --instances; did you mean -i? (see: ingot scale --help)`,
		"scale shop --replicas 2":                `ingot: unknown flag --replicas; did you mean -i? (see: ingot scale --help)`,
		"create-service postgres small db --xyz": `ingot: unknown flag --xyz (see: ingot create-service --help)`,
	} {
		if _, errs, code := w.run(strings.Fields(line)...); code != 2 || strings.TrimSpace(errs) != want {
			t.Errorf("%s: exit code %d\n%swant %s", line, code, errs, want)
		}
	}
}

// The help of every command fits terminals of every width, and no word is split.
func TestHelpIsWrappedAtSpaces(t *testing.T) {
	t.Parallel()
	plain := cli.HelpAt(0)
	for width := 40; width <= 200; width++ {
		for name, help := range cli.HelpAt(width) {
			if !slices.Equal(strings.Fields(help), strings.Fields(plain[name])) {
				t.Fatalf("%q at %d columns has other words:\n%s", name, width, help)
			}
			examples := false
			for line := range strings.Lines(help) {
				line = strings.TrimRight(line, "\n")
				switch {
				case line == "Examples:":
					examples = true // they are copied as they are
				case line == "":
					examples = false
				}
				term := strings.HasPrefix(line, "  ") && !strings.HasPrefix(line, "   ") // a flag with its value
				if utf8.RuneCountInString(line) > width && !examples && !term && len(strings.Fields(line)) > 1 {
					t.Fatalf("%q at %d columns: the line %q is longer", name, width, line)
				}
			}
		}
	}
	for _, word := range []string{"dev", "top", "open"} {
		if !strings.Contains(plain[""], "\n  "+word+" ") {
			t.Errorf("the short help does not name %s:\n%s", word, plain[""])
		}
	}
}

// Names that do not exist are named for what they are, with what exists instead.
func TestWhatExistsInstead(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"create-service postgress small db": "FAILED Service offering 'postgress' not found.\n  Try: did you mean " +
			"'postgres'?\n",
		"create-service kafka small db": "FAILED Service offering 'kafka' not found.\n  Existing service offerings: " +
			"postgres\n",
		"create-service postgres smal db": "FAILED Plan 'smal' of the service offering 'postgres' not found.\n  Try: did " +
			"you mean 'small'?\n",
		"create-service postgres huge db": "FAILED Plan 'huge' of the service offering 'postgres' not found.\n  Plans of " +
			"postgres: small\n",
		"app nothing":         "FAILED App 'nothing' not found.\n  Existing apps: shop\n",
		"target -o elsewhere": "FAILED Org 'elsewhere' not found.\n  Existing orgs: acme\n",
	} {
		w := loggedIn(t)
		w.api.instead["GET /v3/service_plans"] = func(r *http.Request) (int, any) {
			q := r.URL.Query()
			if o := q.Get("service_offering_names"); o != "" && o != "postgres" {
				return 200, list()
			}
			return 200, one(r, object{"guid": "plan-guid", "name": "small"})
		}
		w.api.instead["GET /v3/service_offerings"] = func(r *http.Request) (int, any) {
			return 200, one(r, object{"guid": "offering-guid", "name": "postgres"})
		}
		if _, errs, code := w.run(strings.Fields(line)...); code != 1 || errs != want {
			t.Errorf("%s: exit code %d\n%swant\n%s", line, code, errs, want)
		}
	}
	// Completion knows offerings and plans.
	w := loggedIn(t)
	w.api.instead["GET /v3/service_plans"] = func(r *http.Request) (int, any) {
		if r.URL.Query().Get("service_offering_names") != "postgres" {
			return 200, list()
		}
		return 200, list(object{"name": "large"}, object{"name": "small"})
	}
	w.api.instead["GET /v3/service_offerings"] = func(*http.Request) (int, any) {
		return 200, list(object{"name": "mysql"}, object{"name": "postgres"})
	}
	for line, want := range map[string]string{
		"create-service ": "mysql\npostgres\n", "create-service p": "postgres\n",
		"create-service postgres ": "large\nsmall\n", "create-service mysql ": "",
		"marketplace -e m": "mysql\n", "enable-service-access p": "postgres\n",
		"enable-service-access postgres -p s": "small\n", "service-access -e p": "postgres\n",
	} {
		if out, _, _ := w.run(append([]string{"__complete"}, strings.Split(line, " ")...)...); out != want {
			t.Errorf("completing %q: %q, want %q", line, out, want)
		}
	}
}

// 'open APP' opens the app; without a browser it prints the address and says so.
func TestOpen(t *testing.T) {
	t.Parallel()
	w := loggedIn(t)
	if runtime.GOOS == "linux" { // others have a desktop
		out, errs, code := w.run("open", "shop")
		if code != 0 || !strings.HasSuffix(out, "\nhttp://shop.apps.test:PORT\n") ||
			!strings.Contains(errs, "No browser could be started") {
			t.Errorf("exit code %d, want the address of the app and why no browser was started:\n%s%s", code, out, errs)
		}
	}
	if out, _, code := w.run("open", "shop", "--console", "--print"); code != 0 ||
		out != "http://api.test/console/apps/app-guid\n" {
		t.Errorf("exit code %d, want the app's page in the console: %s", code, out)
	}
	if out, _, code := w.run("open", "--print"); code != 0 || out != "http://api.test/console\n" {
		t.Errorf("exit code %d, want the console: %s", code, out)
	}
	w.api.instead["GET /v3/apps/app-guid/routes"] = func(*http.Request) (int, any) {
		return 200, list(object{"guid": "r", "url": "shop.apps.internal", "protocol": "http"},
			object{"guid": "t", "url": "tcp.test:1024", "port": 1024, "protocol": "tcp"})
	}
	if _, errs, code := w.run("open", "shop"); code != 1 ||
		!strings.Contains(errs, "App shop has no route that a browser can open.") {
		t.Errorf("exit code %d for an app without a route: %s", code, errs)
	}
}

// A server on this machine with TLS: the client calls it without, and shows addresses with.
func TestURLsWithTLS(t *testing.T) {
	t.Parallel()
	w := loggedIn(t)
	w.change(t, func(c *config.Config) { c.Links.Public = "https://api.example.org:8443" })
	for _, command := range []string{"apps", "app shop", "routes", "open shop --print"} {
		if out, _, _ := w.run(strings.Fields(command)...); !strings.Contains(out, "https://shop.apps.test:8443") ||
			strings.Contains(out, "http://shop") {
			t.Errorf("%s shows another address than https://shop.apps.test:8443:\n%s", command, out)
		}
	}
}

// The list of kinds shows the template that messages get.
func TestTemplateOfAKind(t *testing.T) {
	t.Parallel()
	w := loggedIn(t)
	w.api.instead["GET /notify/notifications"] = func(*http.Request) (int, any) {
		kind := func(template string) object { return object{"description": "d", "template": template} }
		return 200, object{
			"a": object{"name": "A", "template": "formal", "notifications": object{"own": kind("card"), "plain": kind("default"),
				"none": kind("")}},
			"b": object{"name": "B", "template": "default", "notifications": object{"plain": kind("default")}},
			"c": object{"name": "C", "template": "", "notifications": object{"plain": kind("")}},
		}
	}
	out, errs, code := w.run("notifications", "kinds", "--client", "sender", "--client-secret", "x")
	var got []string
	for line := range strings.Lines(out) {
		if words := strings.Fields(line); len(words) == 5 && words[2] == "d" {
			got = append(got, words[0]+"/"+words[1]+"="+words[4])
		}
	}
	if want := []string{"a/none=formal", "a/own=card", "a/plain=formal", "b/plain=default",
		"c/plain=default"}; code != 0 || !slices.Equal(got, want) {
		t.Errorf("exit code %d, templates %q, want %q\n%s%s", code, got, want, out, errs)
	}
}

// The client shows what the notification service ignored, and whether a user unsubscribed.
func TestNotificationWarningsAndStatus(t *testing.T) {
	t.Parallel()
	w := loggedIn(t)
	w.api.headers = map[string]string{"POST /notify/everyone": "%22send_at%22+is+not+a+field"}
	_, errs, code := w.run("notifications", "send", "disk-full", "--everyone", "--text", "x", "--client", "sender",
		"--client-secret", "x")
	if code != 0 || !strings.Contains(errs, `"send_at" is not a field`) {
		t.Errorf("exit code %d, want the warning: %s", code, errs)
	}
	w.api.instead["GET /notify/messages"] = func(*http.Request) (int, any) {
		return 200, object{"messages": []any{object{"id": "message-1", "status": "unsubscribed",
			"reason": "the user has unsubscribed"}}}
	}
	if out, errs, code := w.run("notifications", "status", "message-1", "--client", "sender", "--client-secret",
		"x"); code != 0 || out != "unsubscribed: the user has unsubscribed\n" {
		t.Errorf("exit code %d, status %q, want unsubscribed: %s", code, out, errs)
	}
}
