package libraries

import (
	"testing"

	"github.com/scim2/filter-parser/v2"

	"ingot/internal/auth/scim"
)

func BenchmarkFilter(b *testing.B) {
	const text = `(userName eq "marissa" or emails.value co "example.org") and active eq true`
	b.Run("ours", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := scim.Parse(text); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("filter-parser", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := filter.ParseFilter([]byte(text)); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// TestFilterBesideParser has filters that clients of UAA send.
func TestFilterBesideParser(t *testing.T) {
	t.Parallel()
	for text, libraryOK := range map[string]bool{
		`userName eq "marissa"`:                         true,
		`userName Eq "marissa" AND active eq true`:      true,
		`userName eq 'marissa'`:                         false, // UAA takes single quotes
		`  userName eq "marissa" `:                      false,
		`not (userName eq "marissa")`:                   true,
		`userName eq "a" and(userName eq "b")`:          false,
		`externalId eq null`:                            true,
		`meta.lastModified gt "2026-01-01T00:00:00Z"`:   true,
		`client_id eq "cf" and last_modified gt "2026"`: true,
	} {
		if _, err := scim.Parse(text); err != nil {
			t.Errorf("ours refuses %q: %v", text, err)
		}
		if _, err := filter.ParseFilter([]byte(text)); (err == nil) != libraryOK {
			t.Errorf("filter-parser takes %q: %t, the decision says %t (%v)", text, err == nil, libraryOK, err)
		}
	}
}
