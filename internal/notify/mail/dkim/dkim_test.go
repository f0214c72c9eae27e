package dkim

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/emersion/go-msgauth/dkim"

	"ingot/internal/notify"
	"ingot/internal/notify/mail/compose"
)

func keys(t testing.TB) map[string]crypto.Signer {
	t.Helper()
	_, edwards, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	r, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	return map[string]crypto.Signer{"ed25519": edwards, "rsa": r}
}

func encode(t testing.TB, key any) []byte {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
}

func message(t testing.TB) *compose.Message {
	t.Helper()
	c, err := compose.New(compose.Identity{From: "Ingot <no-reply@ingot.example>"})
	if err != nil {
		t.Fatal(err)
	}
	m, err := c.Message(&notify.Outgoing{
		ID: "abc", To: "ann@example.com", ClientID: "c", Received: time.Now(), Unsubscribe: "https://ingot.example/u/1",
		Body: &notify.Body{Subject: "Grüße", Text: "Text.\n.\n", HTML: "<p>HTML</p>"},
	}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// verify checks a message as a receiver does, with the key from the DNS.
func verify(t *testing.T, text string, key crypto.Signer) error {
	t.Helper()
	algorithm, public := "rsa", []byte(nil)
	switch k := key.Public().(type) {
	case ed25519.PublicKey:
		algorithm, public = "ed25519", k
	case *rsa.PublicKey:
		var err error
		if public, err = x509.MarshalPKIXPublicKey(k); err != nil {
			t.Fatal(err)
		}
	}
	found, err := dkim.VerifyWithOptions(strings.NewReader(text),
		&dkim.VerifyOptions{LookupTXT: func(name string) ([]string, error) {
			if name != "sel._domainkey.ingot.example" {
				return nil, fmt.Errorf("unexpected name %s", name)
			}
			return []string{"v=DKIM1; k=" + algorithm + "; p=" + base64.StdEncoding.EncodeToString(public)}, nil
		}})
	if err != nil || len(found) != 1 {
		return fmt.Errorf("%d signatures, %w", len(found), err)
	}
	return found[0].Err
}

func TestSign(t *testing.T) {
	t.Parallel()
	for name, key := range keys(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, err := New("ingot.example", "sel", encode(t, key))
			if err != nil {
				t.Fatal(err)
			}
			plain := message(t)
			bodyBefore := bytes.Clone(plain.Body)
			if err := s.Sign(plain); err != nil {
				t.Fatal(err)
			}
			if !bytes.HasPrefix(plain.Header, []byte("DKIM-Signature: ")) || !bytes.Equal(plain.Body, bodyBefore) ||
				bytes.Contains(plain.Header, []byte("\n.")) {
				t.Errorf("header is %s, want the signature first and the body unchanged", plain.Header)
			}
			text := string(plain.Header) + string(plain.Body)
			if err := verify(t, text, key); err != nil {
				t.Fatal(err)
			}
			for what, changed := range map[string]string{
				"the unsubscribe address": strings.Replace(text, "/u/1>", "/u/2>", 1),
				"one-click":               strings.Replace(text, "List-Unsubscribe-Post: List-Unsubscribe=One-Click\r\n", "", 1),
				"a second unsubscribe": strings.Replace(text, "List-Unsubscribe: ",
					"List-Unsubscribe: <https://evil.example>\r\nList-Unsubscribe: ", 1),
				"the subject":     strings.Replace(text, "Subject: ", "Subject: x", 1),
				"a reply address": strings.Replace(text, "To: ann", "Reply-To: evil@example.com\r\nTo: ann", 1),
				"the recipient":   strings.Replace(text, "To: ann", "To: bob", 1),
				"the text":        strings.Replace(text, "Text", "Next", 1),
			} {
				if changed == text {
					t.Errorf("%s was not changed: the case proves nothing", what)
				}
				if err := verify(t, changed, key); err == nil {
					t.Errorf("%s can be changed", what)
				}
			}
		})
	}
}

func TestSignConcurrently(t *testing.T) {
	t.Parallel()
	key := keys(t)["ed25519"]
	s, err := New("ingot.example", "sel", encode(t, key))
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			m := message(t)
			if err := s.Sign(m); err != nil {
				t.Error(err)
			}
			if err := verify(t, string(m.Header)+string(m.Body), key); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
}

func TestNew(t *testing.T) {
	t.Parallel()
	good := keys(t)
	r := good["rsa"].(*rsa.PrivateKey)
	old := pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(r)})
	if _, err := New("ingot.example", "a.b", old); err != nil {
		t.Error(err)
	}
	curve, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	key := encode(t, r)
	for name, test := range map[string]struct {
		domain, selector string
		key              []byte
	}{
		"no key": {"d.example", "s", nil}, "no PEM": {"d.example", "s", []byte("x")}, "no domain": {"", "s", key},
		"no selector":  {"d.example", "", key},
		"bad selector": {"d.example", "s;\r\n", key}, "curve": {"d.example", "s", encode(t, curve)},
		"broken":      {"d.example", "s", append(key[:60:60], key[70:]...)},
		"certificate": {"d.example", "s", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte("x")})},
	} {
		if _, err := New(test.domain, test.selector, test.key); err == nil {
			t.Errorf("%s is taken", name)
		}
	}
}

func BenchmarkSign(b *testing.B) {
	for name, key := range keys(b) {
		b.Run(name, func(b *testing.B) {
			s, err := New("ingot.example", "sel", encode(b, key))
			if err != nil {
				b.Fatal(err)
			}
			m := message(b)
			header := m.Header
			for b.Loop() {
				m.Header = header
				if err := s.Sign(m); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// Attachments are signed too.
func TestSignAttached(t *testing.T) {
	t.Parallel()
	key := keys(t)["ed25519"]
	if key == nil {
		t.Fatal("there is no such key")
	}
	s, err := New("ingot.example", "sel", encode(t, key))
	if err != nil {
		t.Fatal(err)
	}
	c, err := compose.New(compose.Identity{From: "Ingot <no-reply@ingot.example>"})
	if err != nil {
		t.Fatal(err)
	}
	m, err := c.Message(&notify.Outgoing{
		ID: "abc", To: "ann@example.com", ClientID: "c", Received: time.Now(), Unsubscribe: "https://ingot.example/u/1",
		Body: &notify.Body{Subject: "s", Text: "Text.", HTML: "<img src=cid:logo>"},
		Attached: &notify.Attached{Files: []notify.AttachedFile{
			{Attachment: notify.Attachment{Name: "Büro.png", Type: "image/png", Inline: "logo"}, Content: make([]byte, 1000)},
			{Attachment: notify.Attachment{Name: "a.csv", Type: "text/csv"}, Content: bytes.Repeat([]byte("a, \r\n"), 1000)},
		}},
	}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Sign(m); err != nil {
		t.Fatal(err)
	}
	text := string(bytes.Join(m.Parts(), nil))
	if err := verify(t, text, key); err != nil {
		t.Fatal(err)
	}
	for _, changed := range []string{strings.Replace(text, "a.csv", "b.csv", 1), strings.Replace(text, "AAAA", "AAAB", 1),
		strings.TrimSuffix(text, string(m.Tail))} {
		if changed == text || verify(t, changed, key) == nil {
			t.Error("attachments can be changed")
		}
	}
}
