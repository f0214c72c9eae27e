package look_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"ingot/internal/base/look"
)

// TestPolicy checks that a page has only what its policy allows, and that it shows text as
// text.
func TestPolicy(t *testing.T) {
	t.Parallel()
	files := fstest.MapFS{"page.html": {
		Data: []byte(`{{template "head" .Title}}<main>{{template "time" .At}}</main>{{template "foot"}}`)}}
	page, err := look.Parse(files, nil, "*.html")
	if err != nil {
		t.Fatal(err)
	}
	const hostile = `</title><script>alert(1)</script>`
	var b bytes.Buffer
	at := time.Date(2026, 3, 4, 5, 6, 7, 8e6, time.FixedZone("x", 3600))
	if err := page.ExecuteTemplate(&b, "page.html", map[string]any{"Title": hostile, "At": at}); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(b.String(), hostile) {
		t.Errorf("the title is markup:\n%s", &b)
	}
	if want := `<time datetime="2026-03-04T04:06:07.008Z" title="2026-03-04 04:06:07 UTC">2026-03-04 04:06:07 UTC</time>`; !strings.Contains(b.String(), want) {
		t.Errorf("%s is not in\n%s", want, &b)
	}
	policy := look.Policy("form-action 'self'")
	inline := regexp.MustCompile(`(?s)<(?:style|script)[^>]*>(.*?)</(?:style|script)>`).
		FindAllStringSubmatch(b.String(), -1)
	if len(inline) != 2 {
		t.Fatalf("%d inline elements, want the style sheet and the script:\n%s", len(inline), &b)
	}
	for _, one := range inline {
		sum := sha256.Sum256([]byte(one[1]))
		if hash := base64.StdEncoding.EncodeToString(sum[:]); !strings.Contains(policy, "'sha256-"+hash+"'") {
			t.Errorf("the policy %q does not allow\n%s", policy, one[0])
		}
	}
	if strings.Contains(policy, "unsafe") || !strings.HasPrefix(policy, "default-src 'none';") ||
		!strings.HasSuffix(policy, "; form-action 'self'") {
		t.Errorf("the policy is %q", policy)
	}
}
