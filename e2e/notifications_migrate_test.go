package e2e

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"ingot/internal/base/testkit"
)

// TestNotificationsMigration runs the commands of docs/notifications-migrating.md, from one service to another one with
// the same authorization server. They use only requests that the original has too.
func TestNotificationsMigration(t *testing.T) {
	t.Parallel()
	p := newMailFixture(t, options{})
	p.newSender(t, "mover", "notifications.manage", "notifications.admin", "notification_templates.read",
		"notification_templates.write", "notification_preferences.admin").want(t, http.StatusCreated)
	ann, bob := p.createUser(t, p.admin, "ann", "p"), p.createUser(t, p.admin, "bob", "p")
	p.register(t, "news", "tips")
	templates := map[string]string{}
	for _, name := range []string{"All", "News", "Unused"} {
		r := p.ask(t, http.MethodPost, "/templates", object{"name": name, "subject": name + ": {{.Subject}}",
			"html": "<p>\"" + name + "\" {{.HTML}}</p>", "text": "{{.Text}}\n-- \n" + name,
			"metadata": object{"of": name}})
		templates[name] = r.want(t, http.StatusCreated).object(t)["template-id"].(string)
	}
	assign := func(path, name string) {
		t.Helper()
		p.ask(t, http.MethodPut, path, object{"template": templates[name]}).want(t, http.StatusNoContent)
	}
	assign("/clients/my-sender/template", "All")
	assign("/clients/my-sender/notifications/news/template", "News")
	p.ask(t, http.MethodPost, "/everyone", object{"kind_id": "news", "subject": "first", "text": "t"}).
		want(t, http.StatusOK)
	p.receive(t, "News: first", "ann@example.org", "bob@example.org", "admin@localhost")
	prefer := func(user string, body object) {
		t.Helper()
		p.ask(t, http.MethodPatch, "/user_preferences/"+user, body).want(t, http.StatusNoContent)
	}
	prefer(ann, object{"clients": object{"my-sender": object{"news": object{"email": false}}}})
	prefer(bob, object{"global_unsubscribe": true})

	a := prepareAlone(t, p.Server, "--smtp-url", p.sink.URL("", ""))
	a.launch(t)
	a.Stdout.await(t, "is ready")
	text, err := os.ReadFile(filepath.Join("..", "docs", "notifications-migrating.md"))
	if err != nil {
		t.Fatal(err)
	}
	var script strings.Builder
	for _, block := range shellBlock.FindAllStringSubmatch(string(text), -1) {
		script.WriteString(block[1])
	}
	old := p.base
	p.base = a.Notifications
	p.register(t, "news", "tips") // the program starts with the new address
	cmd := exec.CommandContext(t.Context(), "bash", "-euo", "pipefail", "-c", strings.NewReplacer(
		"https://notifications.example.org", old, "https://ingot.example.org", a.Notifications,
		"https://uaa.example.org", p.API, "mover-secret", "my-secret").Replace(script.String()))
	cmd.Dir = t.TempDir()
	cmd.Env = append(os.Environ(), "SCIM_TOKEN="+p.admin)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("the documented commands: %v\n%s", err, out)
	}
	// The kinds of the platform's own client are not registered at the new service.
	for line := range strings.Lines(string(out)) {
		if !strings.Contains(line, "ingot-platform") {
			t.Errorf("the documented commands print: %s", line)
		}
	}

	var copied map[string]struct{ Name string }
	p.ask(t, http.MethodGet, "/templates", nil).want(t, http.StatusOK).into(t, &copied)
	seen := map[string]bool{}
	for id, named := range copied {
		if seen[named.Name] {
			t.Errorf("template %s is copied twice", named.Name)
		}
		if seen[named.Name] = true; templates[named.Name] == "" {
			continue // of the platform
		}
		was := p.call(t, http.MethodGet, old+"/templates/"+templates[named.Name], p.token, nil).want(t, http.StatusOK)
		is := p.ask(t, http.MethodGet, "/templates/"+id, nil).want(t, http.StatusOK)
		if was.String() != is.String() {
			t.Errorf("template %s was %s and is %s", named.Name, was, is)
		}
	}
	if !seen["All"] || !seen["News"] || !seen["Unused"] {
		t.Errorf("the copied templates are %v", copied)
	}
	for _, user := range []string{ann, bob} {
		was := p.call(t, http.MethodGet, old+"/user_preferences/"+user, p.token, nil).object(t)
		is := p.ask(t, http.MethodGet, "/user_preferences/"+user, nil).object(t)
		if was["global_unsubscribe"] != is["global_unsubscribe"] {
			t.Errorf("preferences were %v and are %v", was, is)
		}
	}
	send := func(kind, subject string, to ...string) {
		t.Helper()
		p.ask(t, http.MethodPost, "/everyone", object{"kind_id": kind, "subject": subject, "text": "t"}).
			want(t, http.StatusOK)
		p.receive(t, map[string]string{"news": "News: ", "tips": "All: "}[kind]+subject, to...)
	}
	send("news", "second", "admin@localhost")
	send("tips", "third", "ann@example.org", "admin@localhost")
	testkit.Eventually(t, "nothing waits", func() bool {
		return !strings.Contains(p.ask(t, http.MethodGet, "/messages?status=queued", nil).String(), "user_id")
	})
}
