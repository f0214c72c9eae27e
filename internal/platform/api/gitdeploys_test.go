package api_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"ingot/internal/base/db"
	"ingot/internal/base/db/dbtest"
	"ingot/internal/base/safedial"
	"ingot/internal/base/testkit"
	"ingot/internal/platform"
	"ingot/internal/platform/api"
	"ingot/internal/platform/run/gitfetch"
	"ingot/internal/platform/run/gitfetch/gitfetchtest"
)

// gitWorld is a world with a git server; $git is the address of its repository.
func gitWorld(t *testing.T, dialect db.Dialect) (*world, *gitfetchtest.Repository) {
	t.Helper()
	repo := gitfetchtest.New(t)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/private") {
			if _, password, _ := r.BasicAuth(); password != "hunter2" {
				w.WriteHeader(http.StatusUnauthorized)
				return
			}
			r.URL.Path = strings.TrimPrefix(r.URL.Path, "/private")
		}
		repo.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	w := newWorldIn(t, setupOptions(t, dialect, func(o *api.Options) {
		o.Git = gitfetch.New(gitfetch.Config{Guard: safedial.Everywhere, Scratch: t.TempDir()})
	}))
	w.vars["git"], w.vars["private"] = server.URL+gitfetchtest.Path, server.URL+"/private"+gitfetchtest.Path
	return w, repo
}

const gitCreate = "POST /v3/ingot/spaces/$space/deploy"

// TestDeployGit: an app is created from a repository, changed, and deployed again; the password is never shown.
func TestDeployGit(t *testing.T) {
	t.Parallel()
	w, repo := gitWorld(t, db.SQLite)
	repo.Commit("readme", "x")
	repo.Commit("site/index.html", "x")
	repo.Commit("site/.cfignore", "*.log")
	first := repo.Commit("site/a.log", "x")
	a := w.one(step{as: "dev", do: gitCreate, want: 202, body: `{"name":"shop","git":{"url":"$private","branch":"main",` +
		`"folder":"/site/","username":"bot","password":"hunter2"}}`, not: []string{"hunter2"}})
	w.vars["shop"], _ = a.at("app.guid").(string)
	if got := strings.Join(w.stored(w.vars["shop"]), " "); got != "index.html" {
		t.Errorf("the package has %s, want index.html", got)
	}
	w.failBuilds()
	const source = "/v3/ingot/apps/$shop/git-source"
	w.play([]step{
		{as: "dev", do: "GET " + source, want: 200, not: []string{"hunter2", `"secret"`}, has: []string{first,
			`"folder":"site"`, `"username":"bot"`, `"has_password":true`, `"enabled":false`, `"subject":"write site/a.log"`}},
		// The password stays with its repository: no other one gets it, on the same server or elsewhere.
		{as: "dev", do: "PUT " + source, body: `{"url":"$private","username":"bot","folder":"site"}`, want: 200,
			has: []string{`"has_password":true`, `"branch":null`}},
		{as: "dev", do: "PUT " + source, body: `{"url":"$private/other","username":"bot"}`, want: 200,
			has: []string{`"has_password":false`}},
		{as: "dev", do: "PUT " + source, body: `{"url":"https://git.example.com/x","username":"bot"}`, want: 200,
			has: []string{`"has_password":false`}},
		{as: "dev", do: "PUT " + source, body: `{"url":"$private","username":"bot","folder":"site"}`, want: 200,
			has: []string{`"has_password":false`}},
		{as: "dev", do: "POST /v3/ingot/apps/$shop/deploy", body: `{"redeploy":true}`, want: 422,
			has: []string{"requires a user name and a token"}},
		{as: "dev", do: "POST /v3/ingot/apps/$shop/deploy", body: `{"git":{"url":"$git"}}`, want: 202},
		{as: "dev", do: "GET /v3/packages?app_guids=$shop", want: 200, not: []string{"hunter2"}},
		{do: "GET /v3/audit_events?target_guids=$shop&per_page=500", want: 200, not: []string{"hunter2"},
			has: []string{"audit.app.git_source.update"}},
	})
	w.failBuilds()
	repo.Commit("index.html", "y")
	w.one(step{as: "dev", do: "POST /v3/ingot/apps/$shop/deploy", body: `{"redeploy":true}`, want: 202})
	w.play([]step{
		{as: "dev", do: "GET " + source, want: 200, has: []string{`"subject":"write index.html"`}},
		{as: "dev", do: "DELETE " + source, want: 204},
		{as: "dev", do: "GET " + source, want: 404},
		{as: "dev", do: "POST /v3/ingot/apps/$shop/deploy", body: `{"redeploy":true}`, want: 422, has: []string{"no git"}},
		{as: "dev", do: "DELETE /v3/apps/$shop", want: 202},
	})
	for as, want := range map[string]int{"supporter": 403, "auditor": 403, "manager": 403, "stranger": 404} {
		w.one(step{as: as, do: gitCreate, body: `{"name":"x","git":{"url":"$git"}}`, want: want})
		w.one(step{as: as, do: "PUT /v3/ingot/apps/$app/git-source", body: `{"url":"$git"}`, want: want})
		w.one(step{as: as, do: "GET /v3/ingot/apps/$app/git-source", want: want})
		w.one(step{as: as, do: "POST /v3/ingot/apps/$app/git-source/secret", want: want})
	}
}

// TestDeployGitRefused: what is wrong with a source or its files; nothing is created.
func TestDeployGitRefused(t *testing.T) {
	t.Parallel()
	w, repo := gitWorld(t, db.SQLite)
	commit := repo.Commit("index.html", "x")
	branch := func(name string, change func()) {
		repo.Git("checkout", "-q", "-b", name, "main")
		change()
		repo.Git("commit", "-q", "-m", name)
		repo.Git("checkout", "-q", "-f", "main")
		repo.Git("clean", "-fdq")
	}
	object := func(path, mode string) {
		repo.Git("update-index", "--add", "--cacheinfo", mode+","+commit+","+path)
	}
	branch("submodule", func() { object("lib", "160000") })
	link := func(to string) func() {
		return func() {
			repo.Git("config", "core.symlinks", "true")
			repo.Git("update-index", "--add", "--cacheinfo", "120000,"+repo.Hash(to)+",link")
		}
	}
	branch("outside", link("../../etc/passwd"))
	branch("absolute", link("/etc/passwd"))
	branch("bad-manifest", func() {
		manifest := repo.Hash("applications: [{memory: much}]")
		repo.Git("update-index", "--add", "--cacheinfo", "100644,"+manifest+",manifest.yml")
	})
	tree := func(name, entry string) {
		repo.Git("branch", name, repo.Git("commit-tree", "-m", name, repo.Tree("100644", entry, repo.Hash("x"))))
	}
	tree("dotgit", ".GIT")
	tree("dotdot", "..")
	tree("short", "git~1")
	for body, want := range map[string]string{
		`{"url":""}`:                                          "address of the git repository is missing",
		`{"url":"file:///etc/passwd"}`:                        "must begin with https://",
		`{"url":"ssh://git@example.com/a"}`:                   "not ssh",
		`{"url":"git@example.com:a/b.git"}`:                   "not ssh",
		`{"url":"https://u:hunter2@example.com/a"}`:           "must not contain a user name",
		`{"url":"https://example.com/a?x=hunter2"}`:           "query",
		`{"url":"ext::sh -c id"}`:                             "must begin with https://",
		`{"url":"--upload-pack=id"}`:                          "must begin with https://",
		`{"url":"$git","branch":"a..b"}`:                      "branch",
		`{"url":"$git","branch":"-x"}`:                        "branch",
		`{"url":"$git","branch":"a\nb"}`:                      "branch",
		`{"url":"$git","folder":"../x"}`:                      "folder",
		`{"url":"$git","folder":"a/../../x"}`:                 "folder",
		`{"url":"$git","folder":"none"}`:                      "has no folder none",
		`{"url":"$git","branch":"none"}`:                      "no branch or tag none",
		`{"url":"$git","username":"a:b"}`:                     "no colon",
		`{"url":"$git","password":"hunter2\r\nX: y"}`:         "line breaks",
		`{"url":"$private"}`:                                  "requires a user name and a token",
		`{"url":"$private","password":"hunter"}`:              "refuses the user name and the token",
		`{"url":"$git","branch":"submodule"}`:                 "is a submodule",
		`{"url":"$git","branch":"outside"}`:                   "outside the repository",
		`{"url":"$git","branch":"absolute"}`:                  "outside the repository",
		`{"url":"$git","branch":"dotgit"}`:                    "belongs to git",
		`{"url":"$git","branch":"short"}`:                     "belongs to git",
		`{"url":"$git","branch":"dotdot"}`:                    "invalid name",
		`{"url":"$git","branch":"bad-manifest"}`:              "Memory",
		`{"url":"https://` + strings.Repeat("x", 3000) + `"}`: "too long",
	} {
		w.one(step{as: "dev", do: gitCreate, body: `{"name":"new","git":` + body + `}`, want: 422, has: []string{want},
			not: []string{"hunter2"}})
	}
	w.one(step{do: "GET /v3/apps?names=new", want: 200, has: []string{`"total_results":0`}})
}

// sign returns the signature of a webhook.
func sign(secret, body string) string {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(body))
	return hex.EncodeToString(mac.Sum(nil))
}

// hook sends a webhook; headers are names and values.
func (w *world) hook(path, body string, headers ...string) *answer {
	w.t.Helper()
	r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	return w.send("", r)
}

// hooked creates an app from the repository and returns the path and the secret of its webhooks.
func (w *world) hooked() (path, secret string) {
	w.t.Helper()
	a := w.one(step{as: "dev", do: gitCreate, body: `{"name":"shop","git":{"url":"$git","branch":"main"}}`, want: 202})
	w.vars["shop"], _ = a.at("app.guid").(string)
	build, _ := a.at("build.guid").(string)
	w.finishBuild(build, "no buildpack")
	w.ended(a.at("job.guid").(string))
	a = w.one(step{as: "dev", do: "POST /v3/ingot/apps/$shop/git-source/secret", want: 201})
	address, _ := a.at("webhook.url").(string)
	secret, _ = a.at("webhook.secret").(string)
	_, rest, _ := strings.Cut(address, "/v3/")
	return "/v3/" + rest, secret
}

// TestWebhookRefused: none of these deploys anything, and the answers do not say what is wrong.
func TestWebhookRefused(t *testing.T) {
	t.Parallel()
	w, repo := gitWorld(t, db.SQLite)
	repo.Commit("index.html", "x")
	path, secret := w.hooked()
	commit := repo.Commit("index.html", "y")
	body := `{"ref":"refs/heads/main","after":"` + commit + `"}`
	good, bad := sign(secret, body), sign("other", body)
	push := []string{"X-GitHub-Event", "push"}
	texts := map[string]bool{}
	for name, c := range map[string]struct {
		path    string
		headers []string
	}{
		"unsigned":             {path, nil},
		"github, bad":          {path, []string{"X-Hub-Signature-256", "sha256=" + bad}},
		"github, empty":        {path, []string{"X-Hub-Signature-256", ""}},
		"github, no prefix":    {path, []string{"X-Hub-Signature-256", good}},
		"github, no hex":       {path, []string{"X-Hub-Signature-256", "sha256=zz"}},
		"github, short":        {path, []string{"X-Hub-Signature-256", "sha256=" + good[:32]}},
		"github, sha1 only":    {path, []string{"X-Hub-Signature", "sha1=" + good[:40]}},
		"gitea, bad":           {path, []string{"X-Gitea-Signature", bad}},
		"gitlab, bad":          {path, []string{"X-Gitlab-Token", "other"}},
		"gitlab, prefix":       {path, []string{"X-Gitlab-Token", secret[:10]}},
		"one of two":           {path, []string{"X-Hub-Signature-256", "sha256=" + good, "X-Gitea-Signature", bad}},
		"signed, another app":  {"/v3/ingot/git-hooks/" + w.vars["app"], []string{"X-Hub-Signature-256", "sha256=" + good}},
		"signed, another body": {path, []string{"X-Hub-Signature-256", "sha256=" + sign(secret, body+" ")}},
		"the secret as bearer": {path, []string{"Authorization", "bearer " + secret}},
	} {
		a := w.hook(c.path, body, append(push, c.headers...)...)
		if a.status != http.StatusForbidden {
			t.Errorf("%s: %d, want 403", name, a.status)
		}
		texts[a.at("errors.0.detail").(string)] = true
	}
	if len(texts) != 1 {
		t.Errorf("the refusals differ: %v", texts)
	}
	a := w.hook(path, strings.Repeat("x", 5<<20), "X-Gitlab-Token", secret)
	if a.status != http.StatusRequestEntityTooLarge {
		t.Errorf("a large webhook: %d, want 413", a.status)
	}
	for name, c := range map[string]struct{ event, body, want string }{
		"ping":           {"ping", `{"zen":"x"}`, "not a push"},
		"another branch": {"push", `{"ref":"refs/heads/other","after":"` + commit + `"}`, "another branch"},
		"a deletion":     {"push", `{"ref":"refs/heads/main","after":"` + strings.Repeat("0", 40) + `"}`, "another branch"},
		"no commit":      {"push", `{"ref":"refs/heads/main","after":"; rm -rf /"}`, "another branch"},
	} {
		a := w.hook(path, c.body, "X-GitHub-Event", c.event, "X-Hub-Signature-256", "sha256="+sign(secret, c.body))
		state, _ := a.at("state").(string)
		if a.status != 200 || !strings.Contains(state, c.want) {
			t.Errorf("%s: %d %s, want 200 and %s", name, a.status, state, c.want)
		}
	}
	if n := w.builds("shop"); n != 1 {
		t.Errorf("%d builds, want 1", n)
	}
	limited := false
	for range 40 {
		limited = limited || w.hook(path, body, "X-Hub-Signature-256", "sha256="+bad).status == http.StatusTooManyRequests
	}
	if !limited {
		t.Error("wrong signatures are not limited")
	}
	if a := w.hook(path, body, append(push, "X-Hub-Signature-256", "sha256="+good)...); a.status != 200 {
		t.Errorf("after wrong signatures a right one: %d, want 200", a.status)
	}
}

func (w *world) builds(app string) int {
	w.t.Helper()
	n, _ := w.want(w.call(w.admin(), "GET", "/v3/builds?app_guids="+w.vars[app], nil), 200).
		at("pagination.total_results").(float64)
	return int(n)
}

// TestWebhookDeploys: a push in each form deploys once, the newest commit wins, and one deployment follows another.
func TestWebhookDeploys(t *testing.T) {
	t.Parallel()
	for _, dialect := range dbtest.Dialects {
		t.Run(fmt.Sprint(dialect), func(t *testing.T) {
			t.Parallel()
			w, repo := gitWorld(t, dialect)
			repo.Commit("index.html", "x")
			path, secret := w.hooked()
			send := func(commit, delivery string, form int) string {
				body := `{"ref":"refs/heads/main","after":"` + commit + `"}`
				headers := [][]string{
					{"X-GitHub-Event", "push", "X-GitHub-Delivery", delivery, "X-Hub-Signature-256", "sha256=" + sign(secret, body)},
					{"X-Gitlab-Event", "Push Hook", "X-Gitlab-Event-UUID", delivery, "X-Gitlab-Token", secret},
					{"X-Gitea-Event", "push", "X-Gitea-Delivery", delivery, "X-Gitea-Signature", sign(secret, body)},
				}[form]
				state, _ := w.want(w.hook(path, body, headers...), 200).at("state").(string)
				return state
			}
			for form := range 3 {
				commit := repo.Commit("index.html", strings.Repeat("y", form+1))
				if got := send(commit, "id"+commit, form); got != "accepted" {
					t.Fatalf("form %d: %s, want accepted", form, got)
				}
				w.awaitResults("/v3/builds?app_guids="+w.vars["shop"], float64(form+2))
				// The build goes on: later pushes wait, and are one deployment of the newest commit.
				if got := send(commit, "other", form); got != "ignored: deployed already" {
					t.Errorf("the same commit: %s", got)
				}
				w.failBuilds()
			}
			running := repo.Commit("index.html", "running")
			send(running, "1", 0)
			w.awaitResults("/v3/builds?app_guids="+w.vars["shop"], 5)
			send(repo.Commit("index.html", "skipped"), "2", 0)
			newest := repo.Commit("index.html", "newest")
			send(newest, "3", 0)
			if got := send(newest, "3", 0); got != "ignored: deployed already" {
				t.Errorf("the same delivery: %s", got)
			}
			if n := w.builds("shop"); n != 5 {
				t.Errorf("%d builds while one is in progress, want 5", n)
			}
			w.failBuilds()
			w.awaitResults("/v3/builds?app_guids="+w.vars["shop"], 6)
			w.play([]step{
				{as: "dev", do: "GET /v3/ingot/apps/$shop/git-source", want: 200, has: []string{newest}},
				{do: "GET /v3/audit_events?target_guids=$shop&per_page=500", want: 200, not: []string{secret},
					has: []string{"audit.app.git_webhook.receive", "audit.app.git_webhook.rotate"}},
			})
		})
	}
}

// failBuilds ends the builds in progress.
func (w *world) failBuilds() {
	w.t.Helper()
	var staging []*platform.Build
	err := w.store.View(w.t.Context(), func(tx platform.Tx) (err error) {
		staging, _, err = tx.Builds().List(platform.Where("state", platform.BuildStaging))
		return err
	})
	if err != nil {
		w.t.Fatal(err)
	}
	for _, b := range staging {
		w.finishBuild(b.GUID, "stop")
	}
}

// TestWebhookOwner: a webhook deploys only while the user who set the source is a developer.
func TestWebhookOwner(t *testing.T) {
	t.Parallel()
	w, repo := gitWorld(t, db.SQLite)
	repo.Commit("index.html", "x")
	path, secret := w.hooked()
	err := w.store.Update(t.Context(), func(tx platform.Tx) error {
		_, err := tx.Roles().DeleteAll(platform.Where("type", "space_developer"))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	commit := repo.Commit("index.html", "y")
	w.want(w.hook(path, `{"ref":"refs/heads/main","after":"`+commit+`"}`, "X-Gitlab-Event", "Push Hook", "X-Gitlab-Token",
		secret), 200)
	w.awaitText("/v3/ingot/apps/"+w.vars["shop"]+"/git-source", "is not a developer of the space")
	if n := w.builds("shop"); n != 1 {
		t.Errorf("%d builds, want 1", n)
	}
}

// awaitText waits until an answer has a text.
func (w *world) awaitText(path, text string) {
	w.t.Helper()
	testkit.Eventually(w.t, path+" has "+text, func() bool {
		return strings.Contains(w.want(w.call(w.admin(), "GET", path, nil), 200).body, text)
	})
}
