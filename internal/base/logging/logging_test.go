package logging_test

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"

	"ingot/internal/base/logging"
)

func TestHumanLines(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	log := logging.New(&b, true, slog.LevelInfo)
	ctx := logging.With(logging.With(context.Background(), "request_id", "r1"), "app", "a1")
	log.With("part", "router").WithGroup("g").InfoContext(ctx, "hello", "n", 3, "text", "two words\nand a line",
		slog.Group("sub", "k", "v"))
	log.DebugContext(ctx, "not shown")
	_, line, _ := strings.Cut(b.String(), " ")
	want := `INFO  hello part=router g.n=3 g.text="two words\nand a line" g.sub.k=v g.request_id=r1 g.app=a1` + "\n"
	if line != want {
		t.Errorf("got  %q\nwant %q", line, want)
	}
}

func TestJSONLines(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	log := logging.New(&b, false, slog.LevelDebug)
	log.DebugContext(logging.With(context.Background(), "request_id", "r1"), "hello", "n", 3)
	var entry map[string]any
	if err := json.Unmarshal(b.Bytes(), &entry); err != nil || entry["request_id"] != "r1" || entry["msg"] != "hello" {
		t.Errorf("entry is %s, %v, want hello of request r1", b.String(), err)
	}
}

func TestSecretsAreNotWritten(t *testing.T) {
	t.Parallel()
	for _, human := range []bool{true, false} {
		var b bytes.Buffer
		log := logging.New(&b, human, slog.LevelInfo)
		log.With("client_secret", "hunter2").Info("x", "Password", "hunter2", "access_token", "hunter2",
			slog.Group("request", "Authorization", "hunter2"), "set-cookie", "hunter2", "user", "eve")
		if strings.Contains(b.String(), "hunter2") || !strings.Contains(b.String(), "eve") {
			t.Errorf("human %v: %s", human, b.String())
		}
	}
}
