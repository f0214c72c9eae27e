package notify

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base32"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strings"
)

// IDs converts the numbers of messages and sends to public ids and back. An id
// is the number encrypted as one AES block, formatted like a UUID: it cannot be
// guessed or enumerated, needs no index, and is the same for every attempt, so
// that it can be part of a mail's Message-ID.
type IDs struct {
	messages, sends cipher.Block
	threads         []byte
}

// NewIDs returns IDs for a key of 32 bytes, which has to stay with the
// database.
func NewIDs(key []byte) (*IDs, error) {
	if len(key) != 32 {
		return nil, fmt.Errorf("the key of message ids has %d bytes, want 32", len(key))
	}
	messages, err := aes.NewCipher(key[:16])
	if err != nil {
		return nil, err
	}
	sends, err := aes.NewCipher(key[16:])
	if err != nil {
		return nil, err
	}
	return &IDs{messages, sends, derive(key, "notify thread")}, nil
}

// derive returns a key for another purpose.
func derive(key []byte, purpose string) []byte {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(purpose))
	return h.Sum(nil)
}

// Message returns the public id of a message.
func (d *IDs) Message(number int64) string { return encode(d.messages, number) }

// MessageNumber is the inverse of Message; false means that id is not valid.
func (d *IDs) MessageNumber(id string) (int64, bool) { return decode(d.messages, id) }

// Send returns the public id of a send or campaign.
func (d *IDs) Send(number int64) string { return encode(d.sends, number) }

// SendNumber is the inverse of Send.
func (d *IDs) SendNumber(id string) (int64, bool) { return decode(d.sends, id) }

// Thread returns the id of a conversation: what mail of a client with a key to a recipient refers to. It cannot be
// guessed, and says nothing about the key.
func (d *IDs) Thread(clientID, key, recipient string) string {
	h := hmac.New(sha256.New, d.threads)
	for _, part := range []string{clientID, key, strings.ToLower(recipient)} {
		h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(part)))) // so that no two triples are the same text
		h.Write([]byte(part))
	}
	return "thread-" + hex.EncodeToString(h.Sum(nil)[:aes.BlockSize])
}

// encode leaves half of the block zero, which decode checks.
func encode(b cipher.Block, number int64) string {
	var block [aes.BlockSize]byte
	binary.BigEndian.PutUint64(block[8:], uint64(number))
	b.Encrypt(block[:], block[:])
	return formatID(block[:])
}

// formatID formats a block like a UUID.
func formatID(block []byte) string {
	var out [36]byte
	hex.Encode(out[:8], block[:4])
	hex.Encode(out[9:13], block[4:6])
	hex.Encode(out[14:18], block[6:8])
	hex.Encode(out[19:23], block[8:10])
	hex.Encode(out[24:], block[10:aes.BlockSize])
	out[8], out[13], out[18], out[23] = '-', '-', '-', '-'
	return string(out[:])
}

func decode(b cipher.Block, id string) (int64, bool) {
	if len(id) != 36 || id[8] != '-' || id[13] != '-' || id[18] != '-' || id[23] != '-' {
		return 0, false
	}
	var block [aes.BlockSize]byte
	if n, err := hex.Decode(block[:], []byte(strings.ReplaceAll(id, "-", ""))); err != nil || n != len(block) {
		return 0, false
	}
	b.Decrypt(block[:], block[:])
	number := int64(binary.BigEndian.Uint64(block[8:]))
	if binary.BigEndian.Uint64(block[:8]) != 0 || number < 0 {
		return 0, false
	}
	// Upper case decodes too, but only one form is valid.
	return number, encode(b, number) == id
}

// Tags mark the return paths of messages, so that a report about a message proves that its sender has seen the message:
// its id is known to the client that sent it, its tag only to those who handled the mail. A tag is the id and a part of
// an HMAC of it, in characters that keep their meaning when a server changes their case.
type Tags struct{ key []byte }

const (
	// TagLength is the length of a tag.
	TagLength = tagIDLength + tagProofLength
	// MaxReturn limits what is before "+TAG" in a return path, whose local part may have 64 bytes.
	MaxReturn = 64 - len("+") - TagLength

	tagIDLength    = 26 // of 128 bits
	tagProofLength = 16 // of 80 bits
	tagProofBytes  = 10
)

var tagText = base32.StdEncoding.WithPadding(base32.NoPadding)

// NewTags returns Tags for the key that Store.IDKey returns.
func NewTags(key []byte) (*Tags, error) {
	if len(key) != 32 {
		return nil, fmt.Errorf("the key of return paths has %d bytes, want 32", len(key))
	}
	return &Tags{derive(key, "notify return path")}, nil
}

// Tag returns the tag of a message's id; empty if it is not one of IDs.
func (t *Tags) Tag(id string) string {
	raw, err := hex.DecodeString(strings.ReplaceAll(id, "-", ""))
	if err != nil || len(raw) != 16 || formatID(raw) != id {
		return ""
	}
	return strings.ToLower(tagText.EncodeToString(raw) + tagText.EncodeToString(t.proof(raw)))
}

// WithoutTag hides a tag in what a server said. Servers may change its case, and a text that was shortened may end with
// a part of it.
func WithoutTag(text, tag string) string {
	if tag == "" {
		return text
	}
	var b strings.Builder
	for i := 0; i < len(text); {
		if i+len(tag) <= len(text) && strings.EqualFold(text[i:i+len(tag)], tag) {
			b.WriteString(hidden)
			i += len(tag)
			continue
		}
		b.WriteByte(text[i])
		i++
	}
	out := b.String()
	kept := strings.TrimRight(strings.TrimSuffix(out, hidden), ".>\"' ")
	for n := min(len(tag), len(kept)); n > 0; n-- {
		rest := kept[:len(kept)-n]
		if strings.EqualFold(kept[len(kept)-n:], tag[:n]) && (n >= minPart || strings.HasSuffix(rest, "+")) {
			return rest + hidden
		}
	}
	return out
}

const (
	// hidden replaces a tag; a shortened text ends with it too.
	hidden = "…"
	// minPart is how much of the beginning of a tag does not occur by chance at the end of a text.
	minPart = 8
)

// ID is the inverse of Tag; false means that the tag is not valid.
func (t *Tags) ID(tag string) (string, bool) {
	if len(tag) != TagLength {
		return "", false
	}
	tag = strings.ToUpper(tag)
	raw, err := tagText.DecodeString(tag[:tagIDLength])
	if err != nil || len(raw) != 16 {
		return "", false
	}
	// Compared as text: several texts may mean the same bits.
	want := tagText.EncodeToString(raw) + tagText.EncodeToString(t.proof(raw))
	if subtle.ConstantTimeCompare([]byte(tag), []byte(want)) != 1 {
		return "", false
	}
	return formatID(raw), true
}

func (t *Tags) proof(raw []byte) []byte {
	h := hmac.New(sha256.New, t.key)
	h.Write(raw)
	return h.Sum(nil)[:tagProofBytes]
}
