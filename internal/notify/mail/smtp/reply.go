package smtp

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"

	"ingot/internal/notify"
)

// Limits of a reply. RFC 5321 allows lines of 512 bytes; servers exceed it.
const (
	maxReplyLine  = 2048
	maxReplyLines = 128
)

// reply is a server's reply.
type reply struct {
	code     int
	enhanced string   // "5.1.1", or empty
	lines    []string // without code and line end
}

// errGarbage means that a reply is not SMTP; the connection cannot be used any
// further.
var errGarbage = errors.New("invalid SMTP reply")

// readReply reads one reply of one or more lines. It is strict: anything
// unexpected means that client and server are out of sync.
func readReply(r *bufio.Reader) (reply, error) {
	var got reply
	for n := 0; ; n++ {
		if n == maxReplyLines {
			return reply{}, fmt.Errorf("%w: more than %d lines", errGarbage, maxReplyLines)
		}
		line, err := r.ReadSlice('\n')
		if errors.Is(err, bufio.ErrBufferFull) || len(line) > maxReplyLine {
			return reply{}, fmt.Errorf("%w: a line of more than %d bytes", errGarbage, maxReplyLine)
		}
		if err != nil {
			if errors.Is(err, io.EOF) {
				return reply{}, io.ErrUnexpectedEOF
			}
			return reply{}, err
		}
		code, last, text, ok := replyLine(line)
		if !ok || (n > 0 && code != got.code) {
			return reply{}, fmt.Errorf("%w: %q", errGarbage, shorten(string(line)))
		}
		got.code = code
		if last && n == 0 && text == "2.0.0 Ok" {
			got.enhanced = "2.0.0" // the most common reply, without an allocation
			return got, nil
		}
		got.lines = append(got.lines, text)
		if last {
			got.enhanced = enhancedCode(code, got.lines[0])
			return got, nil
		}
	}
}

// replyLine parses "250-text\r\n".
func replyLine(line []byte) (code int, last bool, text string, ok bool) {
	if len(line) < 5 || line[len(line)-2] != '\r' {
		return 0, false, "", false
	}
	line = line[:len(line)-2]
	if line[0] < '2' || line[0] > '5' || line[1] < '0' || line[1] > '5' || line[2] < '0' || line[2] > '9' {
		return 0, false, "", false
	}
	code = int(line[0]-'0')*100 + int(line[1]-'0')*10 + int(line[2]-'0')
	if len(line) == 3 {
		return code, true, "", true
	}
	switch line[3] {
	case ' ':
		return code, true, string(line[4:]), true
	case '-':
		return code, false, string(line[4:]), true
	}
	return 0, false, "", false
}

// enhancedCode returns the RFC 3463 code at the start of a reply's text. A code
// whose class contradicts the reply is ignored.
func enhancedCode(code int, text string) string {
	word, _, _ := strings.Cut(text, " ")
	parts := strings.Split(word, ".")
	if len(parts) != 3 || len(parts[0]) != 1 || parts[0][0] != byte('0'+code/100) {
		return ""
	}
	for _, p := range parts[1:] {
		if p == "" || len(p) > 3 || strings.Trim(p, "0123456789") != "" {
			return ""
		}
	}
	return word
}

// String formats the reply: "550 5.1.1 no such user".
func (r reply) String() string {
	text := strings.Join(r.lines, " ")
	if text == "" {
		text = r.enhanced
	}
	return shorten(fmt.Sprintf("%d %s", r.code, text))
}

// shorten makes a server's text a single printable line.
func shorten(s string) string {
	s = strings.Map(func(c rune) rune {
		if c < ' ' || c == 0x7f || c == utf8.RuneError || (c >= 0x80 && c < 0xa0) || c == '\u2028' || c == '\u2029' {
			return ' '
		}
		return c
	}, s)
	s = strings.Join(strings.Fields(s), " ")
	if len(s) > 400 {
		s = strings.ToValidUTF8(s[:400], "") + "…"
	}
	return s
}

// stage is the step of a mail transaction that a reply belongs to.
type stage int

const (
	stageMail stage = iota
	stageRcpt
	stageData
	stageContent
)

func (s stage) String() string {
	return [...]string{"sender", "recipient", "DATA command", "content"}[s]
}

// result returns the outcome of a message from its decisive reply.
func (r reply) result(at stage) Result {
	switch {
	case at == stageContent && r.code/100 == 2:
		return Result{Result: notify.Result{Verdict: notify.Accepted, Reason: r.String()}}
	case r.code/100 == 5 && !r.clientFault():
		return Result{Result: notify.Result{Verdict: notify.Permanent, Reason: r.String(), BadAddress: r.badAddress(at)}}
	case r.code/100 == 4 || r.code/100 == 5:
		return Result{Result: notify.Result{Verdict: notify.Temporary, Reason: r.String(), RetryAfter: retryAfter(r)},
			Busy: r.busy(), Unsent: r.code/100 == 5}
	default:
		return Result{Result: notify.Result{Verdict: notify.Temporary,
			Reason: fmt.Sprintf("unexpected reply to the %s: %s", at, r)}}
	}
}

// clientFault reports whether a rejection is about the client and not the
// message: missing authentication or encryption, or a wrong order of commands.
// The message is retried until that is repaired.
func (r reply) clientFault() bool {
	return r.code == 530 || r.code == 538 || r.code == 503 || r.code == 421
}

// badAddress reports whether the recipient was rejected permanently.
func (r reply) badAddress(at stage) bool {
	switch r.enhanced {
	case "5.1.1", "5.1.2", "5.1.3", "5.1.6", "5.1.10", "5.2.1":
		return at == stageRcpt || at == stageContent
	case "":
		// Without an enhanced code, use the plain code; after the content it is
		// as often about the content.
		return at == stageRcpt && (r.code == 550 || r.code == 551 || r.code == 553)
	}
	return false
}

// retryAfter parses "in 300 seconds" or "in 5 minutes", as sent by greylisting
// servers.
func retryAfter(r reply) time.Duration {
	words := strings.Fields(strings.ToLower(strings.Join(r.lines, " ")))
	for i := 0; i+2 < len(words); i++ {
		if words[i] != "in" && words[i] != "for" && words[i] != "after" {
			continue
		}
		var n int
		if len(words[i+1]) > 5 || strings.Trim(words[i+1], "0123456789") != "" {
			continue
		}
		if _, err := fmt.Sscan(words[i+1], &n); err != nil {
			continue
		}
		switch {
		case strings.HasPrefix(words[i+2], "sec"):
			return min(time.Duration(n)*time.Second, time.Hour)
		case strings.HasPrefix(words[i+2], "min"):
			return min(time.Duration(n)*time.Minute, time.Hour)
		}
	}
	return 0
}
