package gitfetchtest

import (
	"encoding/hex"
	"net/http"
	"net/http/cgi"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Path is the path of the repository on its server.
const Path = "/shop/.git"

// Repository is a git repository with a working tree. It serves itself over smart HTTP.
type Repository struct {
	http.Handler
	t   testing.TB
	dir string
}

// New returns an empty repository, or skips the test if git is not installed.
func New(t testing.TB) *Repository {
	t.Helper()
	git, err := exec.LookPath("git")
	if err != nil {
		t.Skip("git is not installed")
	}
	root := t.TempDir()
	r := &Repository{t: t, dir: filepath.Join(root, "shop")}
	if err := os.Mkdir(r.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	r.Git("init", "-q", "-b", "main")
	r.Handler = &cgi.Handler{Path: git, Args: []string{"http-backend"}, Env: []string{"GIT_PROJECT_ROOT=" + root,
		"GIT_HTTP_EXPORT_ALL=1", "GIT_CONFIG_NOSYSTEM=1", "HOME=" + root}}
	return r
}

// Git runs git in the repository and returns its output.
func (r *Repository) Git(args ...string) string {
	r.t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = r.dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_NOSYSTEM=1", "HOME="+filepath.Dir(r.dir), "GIT_AUTHOR_NAME=a",
		"GIT_AUTHOR_EMAIL=a@example.com", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.com")
	out, err := cmd.CombinedOutput()
	if err != nil {
		r.t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// Commit writes a file, commits everything and returns the commit.
func (r *Repository) Commit(name, content string) string {
	r.t.Helper()
	path := filepath.Join(r.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		r.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		r.t.Fatal(err)
	}
	r.Git("add", "-A")
	r.Git("commit", "-q", "-m", "write "+name)
	return r.Git("rev-parse", "HEAD")
}

// Hash stores a file's content and returns its name.
func (r *Repository) Hash(content string) string {
	r.t.Helper()
	return r.input(content, "hash-object", "-w", "--stdin")
}

// Tree stores a folder of one file, which git itself may refuse, and returns its name.
func (r *Repository) Tree(mode, name, blob string) string {
	r.t.Helper()
	sum, err := hex.DecodeString(blob)
	if err != nil {
		r.t.Fatal(err)
	}
	return r.input(mode+" "+name+"\x00"+string(sum), "hash-object", "-w", "-t", "tree", "--literally", "--stdin")
}

func (r *Repository) input(text string, args ...string) string {
	r.t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir, cmd.Stdin = r.dir, strings.NewReader(text)
	out, err := cmd.CombinedOutput()
	if err != nil {
		r.t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}
