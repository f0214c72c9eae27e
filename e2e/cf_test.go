package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/creack/pty"
)

// cfProgram returns the path of the cf client.
func cfProgram(t testing.TB) string {
	t.Helper()
	path := os.Getenv("CF_BIN")
	if path == "" {
		path = filepath.Join("..", ".tools", "bin", "cf")
	}
	path, err := filepath.Abs(path)
	if err == nil {
		_, err = os.Stat(path)
	}
	if err != nil {
		t.Fatalf("the cf client is missing (%v); run: make setup-test", err)
	}
	return path
}

func cfCommand(ctx context.Context, t testing.TB, home string, args []string) *exec.Cmd {
	t.Helper()
	name := filepath.Join(home, "cf") // see oursAsCF
	if _, err := os.Stat(name); err != nil {
		name = cfProgram(t)
	}
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = home
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + home, "CF_HOME=" + home, "CF_COLOR=false", "LANG=en_US.UTF-8",
		"CF_STARTUP_TIMEOUT=15", // minutes: on a busy machine Tomcat took more than the five that cf waits
		"TERM=dumb", "TZ=UTC",
		"GOGC=400", // there are hundreds of calls, and most end before their garbage would matter
	}
	return cmd
}

// cf runs the client and returns its output and exit code.
func cf(t testing.TB, home string, args ...string) (string, int) {
	t.Helper()
	out, code, err := cfTry(t, home, args...)
	if err != nil {
		t.Fatal(err)
	}
	return out, code
}

// cfTry is like cf, for goroutines other than the test's.
func cfTry(t testing.TB, home string, args ...string) (out string, code int, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*patience) // a push compiles
	defer cancel()
	cmd := cfCommand(ctx, t, home, args)
	var text bytes.Buffer
	cmd.Stdout, cmd.Stderr = &text, &text
	err = cmd.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		err = ctx.Err()
	}
	if err != nil {
		return "", 0, fmt.Errorf("cf %s: %w\n%s", strings.Join(args, " "), err, &text)
	}
	return text.String(), cmd.ProcessState.ExitCode(), nil
}

// cfOK runs the client, which must succeed.
func cfOK(t testing.TB, home string, args ...string) string {
	t.Helper()
	out, code := cf(t, home, args...)
	if code != 0 {
		t.Fatalf("cf %s: exit code %d\n%s", strings.Join(args, " "), code, out)
	}
	return out
}

// cfFails runs the client, which must fail with these words.
func cfFails(t testing.TB, home, why string, args ...string) {
	t.Helper()
	out, code := cf(t, home, args...)
	if code != 1 || !strings.Contains(out, why) || !strings.Contains(out, "FAILED") {
		t.Fatalf("cf %s: exit code %d, want 1 and %q\n%s", strings.Join(args, " "), code, why, out)
	}
}

// cfHome returns a CF_HOME whose API endpoint is the server.
func cfHome(t testing.TB, s *Server) string {
	t.Helper()
	home := t.TempDir()
	cfOK(t, home, "api", s.API)
	return home
}

// cfAdmin returns a CF_HOME with the administrator logged in.
func cfAdmin(t testing.TB, s *Server) string {
	t.Helper()
	home := cfHome(t, s)
	cfOK(t, home, "auth", "admin", s.secret(t, "admin-password"))
	return home
}

// cfTokens returns the tokens in the client's configuration.
func cfTokens(t testing.TB, home string) (access, refresh string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(home, ".cf", "config.json"))
	if err != nil {
		t.Fatal(err)
	}
	var config struct{ AccessToken, RefreshToken string }
	if err := json.Unmarshal(text, &config); err != nil {
		t.Fatal(err)
	}
	return strings.TrimPrefix(config.AccessToken, "bearer "), config.RefreshToken
}

// oauthToken returns the output of `cf oauth-token` without the scheme.
func oauthToken(t testing.TB, home string) string {
	t.Helper()
	out := strings.TrimSpace(cfOK(t, home, "oauth-token"))
	token, ok := strings.CutPrefix(out, "bearer ")
	if !ok {
		t.Fatalf("cf oauth-token prints %q, want bearer and a token", out)
	}
	return token
}

// answer is the input for a prompt.
type answer struct{ prompt, text string }

// cfTyped runs the client on its own terminal and answers its prompts.
func cfTyped(t testing.TB, home string, args []string, answers ...answer) (string, int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := cfCommand(ctx, t, home, args)
	// Without a width the client breaks the line after each character.
	terminal, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 40, Cols: 120})
	if err != nil {
		t.Fatal(err)
	}
	defer terminal.Close()
	var seen strings.Builder
	buffer := make([]byte, 1024)
	for from := 0; ; {
		n, err := terminal.Read(buffer)
		seen.Write(buffer[:n])
		if err != nil { // the other side is closed: the client has ended
			break
		}
		if len(answers) > 0 && strings.Contains(seen.String()[from:], answers[0].prompt) {
			from = seen.Len()
			fmt.Fprintf(terminal, "%s\r", answers[0].text)
			answers = answers[1:]
		}
	}
	_ = cmd.Wait() // the exit code is in ProcessState
	if ctx.Err() != nil || len(answers) > 0 {
		t.Fatalf("cf %s: not asked for %v\n%s", strings.Join(args, " "), answers, &seen)
	}
	return seen.String(), cmd.ProcessState.ExitCode()
}
