//go:build unix

package system

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"ingot/internal/base/db"
)

// pusher is a git repository of a user of three servers.
type pusher struct {
	*trio
	dir string
}

func (s *trio) pusher() *pusher {
	if _, err := exec.LookPath("git"); err != nil {
		s.Skip("not installed: git")
	}
	return &pusher{s, s.TempDir()}
}

// remote returns the URL of the app at a server, with a token.
func (p *pusher) remote(server int) string {
	return strings.Replace(p.servers[server].api, "://", "://user:"+p.servers[server].token+"@", 1) + "/git/o/s/pushed"
}

func (p *pusher) try(args ...string) (string, error) {
	p.Helper()
	cmd := exec.CommandContext(p.Context(), "git", args...)
	cmd.Dir = p.dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null", "GIT_TERMINAL_PROMPT=0",
		"GIT_AUTHOR_NAME=A", "GIT_AUTHOR_EMAIL=a@b", "GIT_COMMITTER_NAME=A", "GIT_COMMITTER_EMAIL=a@b", "LC_ALL=C")
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func (p *pusher) git(args ...string) string {
	p.Helper()
	out, err := p.try(args...)
	if err != nil {
		p.Fatalf("git %q: %v\n%s", args, err, out)
	}
	return out
}

// commit commits a page, as an app.
func (p *pusher) commit(page string) {
	p.Helper()
	const manifest = "applications:\n- buildpacks: [staticfile_buildpack]\n  memory: 64M\n  disk_quota: 64M\n"
	for name, text := range map[string]string{"index.html": page, "manifest.yml": manifest} {
		if err := os.WriteFile(filepath.Join(p.dir, name), []byte(text), 0o600); err != nil {
			p.Fatal(err)
		}
	}
	p.git("add", "-A")
	p.git("commit", "-q", "-m", page)
}

// shows waits until every server of those returns the page from the app.
func (p *pusher) shows(page string, servers ...int) {
	p.Helper()
	host := "pushed." + p.servers[servers[0]].list("/v3/domains")[0]["name"].(string)
	for _, i := range servers {
		until(p.T, fmt.Sprintf("page %q at server %d", page, i), func() bool {
			req, err := http.NewRequestWithContext(p.Context(), http.MethodGet, p.servers[i].api+"/", nil)
			if err != nil {
				p.Fatal(err)
			}
			req.Host = host
			res, err := gitClient.Do(req)
			if err != nil {
				p.Fatal(err)
			}
			defer res.Body.Close()
			body, _ := io.ReadAll(res.Body) // a shorter one is another page
			return string(body) == page
		})
	}
}

// gitClient is for requests that may last as long as a push.
var gitClient = &http.Client{Timeout: 5 * time.Minute}

// stall begins a push at a server whose data does not come, and waits until it has reserved the app. end
// ends the connection and returns what the server had written.
func (p *pusher) stall(server int) (end func() string) {
	p.Helper()
	in, out := io.Pipe()
	req, err := http.NewRequestWithContext(p.Context(), http.MethodPost, p.remote(server)+"/git-receive-pack", in)
	if err != nil {
		p.Fatal(err)
	}
	answer := make(chan string, 1)
	go func() {
		res, err := gitClient.Do(req)
		if err != nil {
			answer <- err.Error()
			return
		}
		defer res.Body.Close()
		text, _ := io.ReadAll(res.Body) // the connection may have ended
		answer <- string(text)
	}()
	old, now := strings.TrimSpace(p.git("rev-parse", "HEAD")), strings.Repeat("1", 40)
	line := old + " " + now + " refs/heads/main\x00 report-status side-band-64k"
	if _, err := fmt.Fprintf(out, "%04x%s0000", len(line)+4, line); err != nil {
		p.Fatal(err)
	}
	until(p.T, "claim of the app", func() bool { return p.claims() == 1 })
	return func() string {
		out.Close()
		return <-answer
	}
}

// claims returns how many apps are reserved by pushes.
func (p *pusher) claims() (n int) {
	p.Helper()
	err := p.db.View(p.Context(), func(tx *db.Tx) error {
		return tx.QueryRow("SELECT COUNT(*) FROM cluster_leases WHERE name LIKE 'git push %' AND holder <> ''").Scan(&n)
	})
	if err != nil {
		p.Fatal(err)
	}
	return n
}

// TestServersShareGitPushes pushes an app to several servers, at the same time and in turn, also while one of
// them is cut off in the middle of a push.
func TestServersShareGitPushes(t *testing.T) {
	t.Parallel()
	s := startTrio(t)
	org := s.servers[0].create("/v3/organizations", map[string]any{"name": "o"})
	s.servers[0].create("/v3/spaces", map[string]any{"name": "s", "relationships": to("organization", org)})
	p := s.pusher()
	p.git("init", "-q", "-b", "main")
	p.commit("one")
	p.git("push", p.remote(0), "main")
	p.shows("one", 0, 1, 2)

	// The second server has the repository of the first.
	other := s.pusher()
	other.git("clone", "-q", p.remote(1), ".")
	other.git("fsck", "--strict")
	other.commit("two")
	other.git("push", other.remote(1), "main")
	p.shows("two", 0, 1, 2)
	p.commit("stale")
	if out, err := p.try("push", p.remote(2), "main"); err == nil || !strings.Contains(out, "rejected") {
		t.Errorf("a push without the other's commit: %v, want it rejected\n%s", err, out)
	}
	p.git("fetch", "-q", p.remote(2), "main")
	p.git("reset", "-q", "--hard", "FETCH_HEAD")

	// One at a time on all servers.
	end := p.stall(0)
	other.commit("three")
	for i := range s.servers {
		if out, err := other.try("push", other.remote(i), "main"); err == nil ||
			!strings.Contains(out, "another push to this app is in progress") {
			t.Errorf("a second push, at server %d: %v, want it refused\n%s", i, err, out)
		}
	}
	if out := end(); !strings.Contains(out, "the pack is damaged") {
		t.Errorf("the first push, without data: %q, want it refused", out)
	}
	until(t, "end of the claim", func() bool { return p.claims() == 0 })
	other.git("push", other.remote(2), "main")
	p.shows("three", 0, 1, 2)

	// A server that is as good as dead keeps an app only until it has expired.
	p.git("fetch", "-q", p.remote(1), "main")
	p.git("reset", "-q", "--hard", "FETCH_HEAD")
	end = p.stall(0)
	s.wires[0].cut()
	other.commit("four")
	until(t, "push after the death of a server", func() bool {
		out, err := other.try("push", other.remote(1), "main")
		if err != nil && !strings.Contains(out, "another push to this app is in progress") {
			t.Fatalf("a push after the death of a server: %v\n%s", err, out)
		}
		return err == nil
	})
	end()
	s.wires[0].join()
	p.shows("four", 1, 2)
	for i := range s.servers {
		until(t, "readiness", func() bool {
			return strings.Contains(call(t, http.MethodGet, s.servers[i].api+"/readyz", "", nil).body, `"ok"`)
		})
		if got, want := p.git("ls-remote", p.remote(i), "main"), other.git("rev-parse", "main"); !strings.HasPrefix(got,
			strings.TrimSpace(want)) {
			t.Errorf("server %d has %s, want %s", i, got, want)
		}
	}
	if n := p.claims(); n != 0 {
		t.Errorf("%d apps are still reserved, want 0", n)
	}
	s.servers[1].act(s.servers[1].list("/v3/apps?names=pushed")[0]["guid"].(string), "stop")
	until(t, "end of all instances", func() bool { return len(s.instances()) == 0 })
}
