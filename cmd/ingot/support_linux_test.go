package main

import (
	"strings"
	"testing"

	"ingot/internal/server/support"
)

// TestSupportSettings: of no flag that takes a URL, user, password or query are shown, and every
// other flag of the server is one whose value is not a secret.
func TestSupportSettings(t *testing.T) {
	t.Parallel()
	const planted = "https://plant-user:plant-password@host.example.com/path?key=plant-query#plant-part"
	p := &process{getenv: env(), uid: 0}
	f := p.supportFacts(supportOptions{DataDir: t.TempDir()})
	if len(f.options) < 50 {
		t.Fatalf("%d flags, want those of 'ingot up'", len(f.options))
	}
	for _, o := range f.options {
		got := shownSetting(o, planted)
		switch {
		case o.ValueName == "URL" && got != "https://host.example.com/path",
			o.LongName == "otlp-headers" && got != "set":
			t.Errorf("--%s is shown as %q", o.LongName, got)
		case o.ValueName != "URL" && strings.Contains(o.Description, "PASSWORD"):
			t.Errorf("--%s can have a password and is shown as it is", o.LongName)
		}
	}
	f.server = support.Server{PID: 1,
		Args: []string{"ingot", "up", "--demo", "--listen", ":1", "--smtp-url=smtp://u:plant-p@h:25"},
		Env: map[string]string{"INGOT_ADMIN_PASSWORD": "plant-admin", "PLANTED": "plant-other",
			"INGOT_DOMAIN": "example.com", "OTEL_EXPORTER_OTLP_HEADERS": "x=plant-header"}}
	text, err := f.configuration(t.Context())
	if err != nil || strings.Contains(string(text), "plant") {
		t.Errorf("%v, with secrets or unknown variables:\n%s", err, text)
	}
	for _, want := range []string{"--demo", "true (flag)", ":1 (flag)", "smtp://h:25 (flag)",
		"example.com (variable of the server)", "INGOT_ADMIN_PASSWORD             set", "--otlp-headers"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("%q is missing in\n%s", want, text)
		}
	}
	all := strings.Join(f.secrets(), " ")
	for _, want := range []string{"plant-p", "plant-admin", "plant-header"} {
		if !strings.Contains(all, want) {
			t.Errorf("%s is not among the known secrets", want)
		}
	}
}
