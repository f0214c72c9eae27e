package http1

import "errors"

var errChunks = errors.New("the backend sent a malformed chunk")

// Chunks tracks the framing of a chunked body that is passed through unchanged, to find its
// end.
type Chunks struct {
	state chunkState
	left  int64 // of the chunk; while its size is being read, the value so far
	extra int   // bytes of extensions and trailers
	Data  int64 // bytes of the body without framing
	// trailers are the lines after the last chunk, which are not passed through unchanged.
	trailers []byte
}

type chunkState uint8

const (
	chunkSizeFirst chunkState = iota
	chunkSize
	chunkSpace
	chunkExtension
	chunkSizeLF
	chunkData
	chunkDataCR
	chunkDataLF
	trailerFirst
	trailerText
	trailerLF
	trailersLF
	chunksDone
)

// maxChunkExtra limits extensions and trailers together.
const maxChunkExtra = 64 << 10

// follow parses more of the body and returns how much of b belongs to it, and how much of that
// can be passed through: all but trailers.
func (c *Chunks) follow(b []byte) (n, pass int, err error) {
	for n < len(b) && c.state != chunksDone {
		if c.state == chunkData {
			take := min(c.left, int64(len(b)-n))
			n += int(take)
			c.Data += take
			if c.left -= take; c.left == 0 {
				c.state = chunkDataCR
			}
			pass = n
			continue
		}
		if !c.step(b[n]) {
			return n, pass, errChunks
		}
		n++
		if len(c.trailers) == 0 {
			pass = n
		}
	}
	return n, pass, nil
}

func (c *Chunks) step(b byte) bool {
	switch c.state {
	case chunkSizeFirst, chunkSize:
		digit, isDigit := hexDigit(b)
		switch {
		case isDigit:
			if c.left > 1<<50 {
				return false
			}
			c.left, c.state = c.left<<4|int64(digit), chunkSize
			return true
		case c.state == chunkSizeFirst:
			return false
		case b == '\r':
			c.state = chunkSizeLF
			return true
		case b == ';':
			c.state = chunkExtension
			return true
		}
		return c.space(b)
	case chunkSpace:
		if b == '\r' {
			c.state = chunkSizeLF
			return true
		}
		return c.space(b)
	case chunkExtension:
		if b == '\r' {
			c.state = chunkSizeLF
			return true
		}
		return c.text(b)
	case chunkSizeLF:
		c.state = chunkData
		if c.left == 0 {
			c.state = trailerFirst
		}
		return b == '\n'
	case chunkDataCR:
		c.state = chunkDataLF
		return b == '\r'
	case chunkDataLF:
		c.state = chunkSizeFirst
		return b == '\n'
	case trailerFirst:
		if b == '\r' {
			c.state = trailersLF
			return true
		}
		c.state = trailerText
		return c.trailer(b)
	case trailerText:
		if b == '\r' {
			c.state = trailerLF
			return true
		}
		return c.trailer(b)
	case trailerLF:
		c.state = trailerFirst
		c.trailers = append(c.trailers, "\r\n"...)
		return b == '\n'
	case trailersLF:
		c.state = chunksDone
		return b == '\n'
	}
	return false
}

// space takes white space after the size, which nothing but the end of the line may follow: programs disagree about
// what a size with anything else after it means.
func (c *Chunks) space(b byte) bool {
	c.state = chunkSpace
	return (b == ' ' || b == '\t') && c.text(b)
}

func (c *Chunks) text(b byte) bool {
	c.extra++
	return c.extra <= maxChunkExtra && classes[b]&classText != 0
}

func (c *Chunks) trailer(b byte) bool {
	c.trailers = append(c.trailers, b)
	return c.text(b)
}

func hexDigit(b byte) (int, bool) {
	switch {
	case '0' <= b && b <= '9':
		return int(b - '0'), true
	case 'a' <= b && b <= 'f':
		return int(b-'a') + 10, true
	case 'A' <= b && b <= 'F':
		return int(b-'A') + 10, true
	}
	return 0, false
}
