package e2e

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"testing"

	"ingot/internal/base/testkit"
	"ingot/internal/platform/run/gitfetch/gitfetchtest"
)

// TestDeployGit creates an app from a git server, and deploys a commit when a signed webhook reports it, also when the
// server is killed right after its answer.
func TestDeployGit(t *testing.T) {
	t.Parallel()
	repo := gitfetchtest.New(t)
	gitServer := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, password, _ := r.BasicAuth(); password != "hunter2" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		repo.ServeHTTP(w, r)
	}))
	defer gitServer.Close()
	s := startApps(t, options{Engine: "process", Args: []string{"--allow-networks", "127.0.0.0/8"}})
	client := s.tools(t)[0]
	client.ok(t, "target", "-o", "demo", "-s", "dev")
	repo.Commit("site/Staticfile", "")
	repo.Commit("site/index.html", "version 1")
	shows := func(text string) {
		t.Helper()
		testkit.Eventually(t, "the app answers "+text, func() bool {
			return strings.Contains(s.get(t, "gitted", "/").String(), text)
		})
	}
	address := gitServer.URL + gitfetchtest.Path
	out, code := client.run(t, "deploy-git", "gitted", address, "--folder", "site")
	if code == 0 {
		t.Error("a private repository is fetched without credentials")
	}
	contains(t, out, "requires a user name and a token")
	inner := client.cmd
	client.cmd = func(ctx context.Context, args ...string) *exec.Cmd {
		cmd := inner(ctx, args...)
		cmd.Env = append(cmd.Env, "CF_GIT_PASSWORD=hunter2")
		return cmd
	}
	client.ok(t, "deploy-git", "gitted", address, "--folder", "site", "--branch", "main")
	client.cmd = inner
	shows("version 1")

	out = client.ok(t, "create-git-webhook", "gitted", "--json")
	var hook struct{ URL, Secret string }
	if err := json.Unmarshal([]byte(out), &hook); err != nil {
		t.Fatal(err, out)
	}
	push := func(secret, commit string, want int) {
		t.Helper()
		body := `{"ref":"refs/heads/main","after":"` + commit + `"}`
		mac := hmac.New(sha256.New, []byte(secret))
		mac.Write([]byte(body))
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, hook.URL, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("X-Github-Event", "push")
		r.Header.Set("X-Hub-Signature-256", "sha256="+hex.EncodeToString(mac.Sum(nil)))
		answer, err := (&http.Client{Timeout: patience}).Do(r)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		if answer.StatusCode != want {
			t.Errorf("a webhook: %d, want %d", answer.StatusCode, want)
		}
	}
	commit := repo.Commit("site/index.html", "version 2")
	push("wrong", commit, http.StatusForbidden)
	push(hook.Secret, commit, http.StatusOK)
	shows("version 2")
	push(hook.Secret, repo.Commit("site/index.html", "version 3"), http.StatusOK)
	s.Kill9(t)
	s.Restart(t)
	shows("version 3")
	contains(t, client.ok(t, "git-source", "gitted"), "write site/index.html", hook.URL)
}
