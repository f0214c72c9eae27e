package notify

import (
	"crypto/aes"
	"crypto/cipher"
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
	return &IDs{messages, sends}, nil
}

// Message returns the public id of a message.
func (d *IDs) Message(number int64) string { return encode(d.messages, number) }

// MessageNumber is the inverse of Message; false means that id is not valid.
func (d *IDs) MessageNumber(id string) (int64, bool) { return decode(d.messages, id) }

// Send returns the public id of a send or campaign.
func (d *IDs) Send(number int64) string { return encode(d.sends, number) }

// SendNumber is the inverse of Send.
func (d *IDs) SendNumber(id string) (int64, bool) { return decode(d.sends, id) }

// encode leaves half of the block zero, which decode checks.
func encode(b cipher.Block, number int64) string {
	var block [aes.BlockSize]byte
	binary.BigEndian.PutUint64(block[8:], uint64(number))
	b.Encrypt(block[:], block[:])
	var out [36]byte
	hex.Encode(out[:8], block[:4])
	hex.Encode(out[9:13], block[4:6])
	hex.Encode(out[14:18], block[6:8])
	hex.Encode(out[19:23], block[8:10])
	hex.Encode(out[24:], block[10:])
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
