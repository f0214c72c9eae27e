package e2e

import (
	"bytes"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"image"
	"image/png"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"net/mail"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/emersion/go-msgauth/dkim"

	"ingot/internal/notify/mail/mailtest"
)

// TestAttachmentsByPostfix sends a file and an image, with a server that signs its mail, through a real mail server.
func TestAttachmentsByPostfix(t *testing.T) {
	t.Parallel()
	sink := mailtest.New(t, mailtest.Options{Keep: 100})
	relay := mailtest.Postfix(t, sink.Addr(), sink.Addr())
	keyFile, record := signingKey(t)
	p := newMailFixtureOf(t, sink, "smtp://"+relay, options{Args: []string{
		"--mail-from", "Shop <shop@ingot.example>", "--dkim-key", keyFile, "--dkim-selector", "sel"}})
	p.register(t, "invoice")
	var logo bytes.Buffer
	if err := png.Encode(&logo, image.NewGray(image.Rect(0, 0, 40, 20))); err != nil {
		t.Fatal(err)
	}
	invoice := append([]byte("%PDF-1.4\n"), make([]byte, 200_000)...)
	_, _ = rand.Read(invoice[len("%PDF-1.4\n"):]) // it never fails
	p.ask(t, http.MethodPost, "/sends", object{
		"kind_id": "invoice", "subject": "Your invoice", "html": `<p>Grüße</p><img src="cid:logo" alt="Shop">`,
		"recipients": []object{{"email": "ann@example.org"}, {"email": "bob@example.org"}},
		"attachments": []object{
			{"name": "Rechnung März.pdf", "type": "application/pdf", "content": base64.StdEncoding.EncodeToString(invoice)},
			{"name": "logo.png", "content": base64.StdEncoding.EncodeToString(logo.Bytes()), "inline": "logo"},
		},
	}).want(t, http.StatusAccepted)
	if !sink.Wait(2, patience) {
		t.Fatalf("%d of 2 mails arrived\n%s", sink.Accepted(), p.Stderr)
	}
	for _, m := range sink.Messages() {
		if !strings.Contains(m.Data, "by mx.test (Postfix)") {
			t.Errorf("it did not pass the mail server:\n%.2000s", m.Data)
		}
		found, err := dkim.VerifyWithOptions(strings.NewReader(m.Data), &dkim.VerifyOptions{
			LookupTXT: func(name string) ([]string, error) {
				if name != "sel._domainkey.ingot.example" {
					return nil, fmt.Errorf("unexpected name %s", name)
				}
				return []string{record}, nil
			},
		})
		if err != nil || len(found) != 1 || found[0].Err != nil || found[0].Domain != "ingot.example" {
			t.Errorf("the signature is wrong: %+v, %v\n%.2000s", found, err, m.Data)
		}
		read, err := mail.ReadMessage(strings.NewReader(m.Data))
		if err != nil {
			t.Fatal(err)
		}
		files := map[string]file{}
		readFiles(t, read.Header.Get("Content-Type"), read.Body, files)
		if got := files["Rechnung März.pdf"]; got.kind != "application/pdf" || got.disposition != "attachment" ||
			!bytes.Equal(got.content, invoice) {
			t.Errorf("the attachment has %d bytes and is %s, %s", len(got.content), got.kind, got.disposition)
		}
		if got := files["logo.png"]; got.kind != "image/png" || got.disposition != "inline" || got.id != "<logo>" ||
			!bytes.Equal(got.content, logo.Bytes()) {
			t.Errorf("the image has %d bytes and is %s, %s, %s", len(got.content), got.kind, got.disposition, got.id)
		}
		if html := readMessage(t, m).HTML; len(files) != 2 || !strings.Contains(html, `src="cid:logo"`) {
			t.Errorf("there are %d files, and the HTML is %s", len(files), html)
		}
	}
}

// signingKey returns the file of a new key for signatures, and its record in the DNS.
func signingKey(t *testing.T) (path, record string) {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	public, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	path = filepath.Join(t.TempDir(), "dkim.pem")
	text := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return path, "v=DKIM1; k=rsa; p=" + base64.StdEncoding.EncodeToString(public)
}

// file is an attachment or an image in a mail.
type file struct {
	kind, disposition, id string
	content               []byte
}

// readFiles adds the files of a part of a mail, by name.
func readFiles(t *testing.T, kind string, body io.Reader, files map[string]file) {
	t.Helper()
	media, params, err := mime.ParseMediaType(kind)
	if err != nil {
		t.Fatalf("bad media type: %v: %s", err, kind)
	}
	if !strings.HasPrefix(media, "multipart/") {
		return
	}
	for parts := multipart.NewReader(body, params["boundary"]); ; {
		p, err := parts.NextRawPart()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		kind := p.Header.Get("Content-Type")
		if p.FileName() == "" {
			readFiles(t, kind, p, files)
			continue
		}
		f := file{id: p.Header.Get("Content-Id")}
		if f.content, err = io.ReadAll(base64.NewDecoder(base64.StdEncoding, p)); err != nil {
			t.Fatal(err)
		}
		f.kind, _, _ = strings.Cut(kind, ";")
		f.disposition, _, _ = strings.Cut(p.Header.Get("Content-Disposition"), ";")
		files[p.FileName()] = f
	}
}
