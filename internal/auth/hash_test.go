package auth

import (
	"strings"
	"testing"

	"golang.org/x/crypto/bcrypt"
)

func TestHashes(t *testing.T) {
	t.Parallel()
	h := newHasher(1)
	hash, err := h.hash(t.Context(), "s3cret")
	if err != nil || !strings.HasPrefix(hash, "$argon2id$v=19$") || strings.Contains(hash, "s3cret") {
		t.Fatalf("hash is %q, %v, want argon2id without the secret", hash, err)
	}
	again, _ := h.hash(t.Context(), "s3cret")
	if again == hash {
		t.Error("two hashes of one secret are equal: the salt is missing")
	}
	old, err := bcrypt.GenerateFromPassword([]byte("s3cret"), bcrypt.MinCost)
	if err != nil {
		t.Fatal(err)
	}
	for _, known := range []string{hash, again, string(old)} {
		for secret, want := range map[string]bool{"s3cret": true, "S3cret": false, "": false,
			strings.Repeat("x", 5000): false} {
			if ok, err := h.matches(t.Context(), turn{}, known, secret); ok != want || err != nil {
				t.Errorf("%.12s… matches %.10q: %v, %v, want %v", known, secret, ok, err, want)
			}
		}
	}
	for _, bad := range []string{"", "s3cret", "$argon2id$", "$argon2id$v=19$m=1,t=0,p=1$AAAA$AAAA",
		"$argon2id$v=19$m=99999999,t=1,p=1$AAAA$AAAAAAAAAAAAAAAAAAAAAAAA", "$argon2i$v=19$m=1,t=1,p=1$AAAA$AAAA"} {
		if ok, err := h.matches(t.Context(), turn{}, bad, "s3cret"); ok || err == nil {
			t.Errorf("hash %q: match %v, error %v, want an error", bad, ok, err)
		}
	}
}

// The cost in production is OWASP's; tests lower it, this constant must not
// follow them.
func TestProductionCost(t *testing.T) {
	t.Parallel()
	if productionMemory < 19<<10 || argonPasses < 2 {
		t.Errorf("m=%d KiB, t=%d is too cheap", productionMemory, argonPasses)
	}
}

func TestRememberedSecretsBelongToTheirHash(t *testing.T) {
	t.Parallel()
	r := newRemembered()
	r.add("hash-1", "secret")
	if !r.knows("hash-1", "secret") || r.knows("hash-2", "secret") || r.knows("hash-1", "other") ||
		newRemembered().knows("hash-1", "secret") {
		t.Error("a secret is remembered for another hash, or across processes")
	}
}

func TestRandomText(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for range 1000 {
		s := randomText(10)
		if len(s) != 10 || seen[s] || strings.ContainsAny(s, "0O1lI") {
			t.Fatalf("text is %q, want 10 characters, new and easy to read", s)
		}
		seen[s] = true
	}
}
