package blob

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"os"
)

// trailer is what stands behind the content of every blob, so that one rename
// makes content and checksums appear together:
//
//	size     8 bytes, big endian
//	sha256  32
//	sha1    20
//	crc32    4, of the 60 bytes before it
//	magic    8, "ingotb1\n"
type trailer struct {
	size   int64
	sha256 [32]byte
	sha1   [20]byte
}

const (
	trailerSize  = 8 + 32 + 20 + 4 + 8
	trailerMagic = "ingotb1\n"
)

func (t trailer) encode() []byte {
	b := make([]byte, 0, trailerSize)
	b = binary.BigEndian.AppendUint64(b, uint64(t.size))
	b = append(b, t.sha256[:]...)
	b = append(b, t.sha1[:]...)
	b = binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b))
	return append(b, trailerMagic...)
}

func (t trailer) info() Info {
	return Info{Size: t.size, SHA256: hexText(t.sha256[:]), SHA1: hexText(t.sha1[:])}
}

// readTrailer returns what a file says about itself, and an error if that cannot
// be, because it was cut off or is something else.
func readTrailer(f *os.File) (Info, error) {
	stat, err := f.Stat()
	if err != nil {
		return Info{}, err
	}
	if stat.Size() < trailerSize {
		return Info{}, errors.New("it is cut off")
	}
	b := make([]byte, trailerSize)
	if _, err := f.ReadAt(b, stat.Size()-trailerSize); err != nil {
		return Info{}, err
	}
	t := trailer{size: int64(binary.BigEndian.Uint64(b)), sha256: [32]byte(b[8:40]), sha1: [20]byte(b[40:60])}
	if string(b) != string(t.encode()) || t.size != stat.Size()-trailerSize {
		return Info{}, errors.New("it is cut off or was changed")
	}
	return t.info(), nil
}
