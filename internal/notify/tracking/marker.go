package tracking

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"ingot/internal/notify"
)

// ErrMark means that a mark is not valid.
var ErrMark = errors.New("not a mark of this service")

// Mark is what a link or an image in a message stands for.
type Mark struct {
	Number int64 // of the message
	Type   notify.ReactionType
	// TemplateID and Version are what the message was rendered with.
	TemplateID string
	Version    int64
	// Target is where a link leads; empty for Opened.
	Target string
}

// Marker seals marks. The same mark always has the same text, so that mail that is sent again does not change.
type Marker struct {
	aead     cipher.AEAD
	nonceKey []byte
}

// NewMarker derives its keys from the key that Store.IDKey returns.
func NewMarker(key []byte) (*Marker, error) {
	if len(key) != 32 {
		return nil, fmt.Errorf("the key of tracking marks has %d bytes, want 32", len(key))
	}
	block, err := aes.NewCipher(mac(key, "notify tracking mark: encryption"))
	if err != nil {
		return nil, err
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		return nil, err
	}
	return &Marker{aead, mac(key, "notify tracking mark: nonce")}, nil
}

func mac(key []byte, text string) []byte {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(text))
	return h.Sum(nil)
}

// Seal returns the text of a mark for the path of a URL.
func (m *Marker) Seal(k Mark) string {
	plain := strings.Join([]string{strconv.FormatInt(k.Number, 36), strconv.Itoa(int(k.Type)),
		strconv.FormatInt(k.Version, 36), k.TemplateID, k.Target}, "\x00")
	// The nonce is derived from the text: equal nonces then mean equal texts.
	nonce := mac(m.nonceKey, plain)[:m.aead.NonceSize()]
	return base64.RawURLEncoding.EncodeToString(m.aead.Seal(nonce, nonce, []byte(plain), nil))
}

// Open is the inverse of Seal. A mark of Clicked has a Target that is a web address.
func (m *Marker) Open(text string) (Mark, error) {
	sealed, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || len(sealed) < m.aead.NonceSize() || strings.ContainsAny(text, "\r\n") {
		return Mark{}, ErrMark
	}
	plain, err := m.aead.Open(nil, sealed[:m.aead.NonceSize()], sealed[m.aead.NonceSize():], nil)
	if err != nil {
		return Mark{}, ErrMark
	}
	parts := strings.Split(string(plain), "\x00")
	const fields = 5
	if len(parts) != fields {
		return Mark{}, ErrMark
	}
	k := Mark{TemplateID: parts[3], Target: parts[4]}
	number, err1 := strconv.ParseInt(parts[0], 36, 64)
	kind, err2 := strconv.Atoi(parts[1])
	version, err3 := strconv.ParseInt(parts[2], 36, 64)
	k.Number, k.Type, k.Version = number, notify.ReactionType(kind), version
	image := k.Type == notify.Opened && k.Target == ""
	link := k.Type == notify.Clicked && webAddress(k.Target)
	if errors.Join(err1, err2, err3) != nil || !image && !link {
		return Mark{}, ErrMark
	}
	return k, nil
}

// maxTarget limits the links that are marked: browsers and mail programs cut long addresses.
const maxTarget = 1500

// webAddress reports whether a link leads to a web server.
func webAddress(link string) bool {
	control := func(r rune) bool { return r < ' ' || r == 0x7f }
	if link == "" || len(link) > maxTarget || strings.ContainsFunc(link, control) {
		return false
	}
	u, err := url.Parse(link)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != ""
}
