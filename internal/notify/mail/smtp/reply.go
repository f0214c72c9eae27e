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

// The bounds of a reply. RFC 5321 allows lines of 512 bytes; servers exceed it.
const (
	maxReplyLine  = 2048
	maxReplyLines = 128
)

// reply is what a server answered.
type reply struct {
	code     int
	enhanced string   // "5.1.1", or empty
	lines    []string // without code and line end
}

// errGarbage marks an answer that is not SMTP; nothing more can be understood
// on that connection.
var errGarbage = errors.New("the server's answer is not SMTP")

// readReply reads one reply, of one or several lines, by the letter: anything
// else means that the two sides no longer talk about the same thing.
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
			got.enhanced = "2.0.0" // what most answers are, without an allocation
			return got, nil
		}
		got.lines = append(got.lines, text)
		if last {
			got.enhanced = enhancedCode(code, got.lines[0])
			return got, nil
		}
	}
}

// replyLine takes "250-text\r\n" apart.
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

// enhancedCode finds RFC 3463's code at the start of a reply's text. One whose
// class contradicts the reply is ignored.
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

// String is the reply for people: "550 5.1.1 no such user".
func (r reply) String() string {
	text := strings.Join(r.lines, " ")
	if text == "" {
		text = r.enhanced
	}
	return shorten(fmt.Sprintf("%d %s", r.code, text))
}

// shorten makes one printable line of what a server sent.
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

// stage is where in a message's way a reply came.
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

// result turns the reply that decided about a message into its outcome.
func (r reply) result(at stage) notify.Result {
	switch {
	case at == stageContent && r.code/100 == 2:
		return notify.Result{Verdict: notify.Accepted, Reason: r.String()}
	case r.code/100 == 5 && !r.ours():
		return notify.Result{Verdict: notify.Permanent, Reason: r.String(), BadAddress: r.badAddress(at)}
	case r.code/100 == 4 || r.code/100 == 5:
		return notify.Result{Verdict: notify.Temporary, Reason: r.String(), RetryAfter: retryAfter(r)}
	default:
		return notify.Result{Verdict: notify.Temporary, Reason: fmt.Sprintf("the server answered the %s with %s, which makes no sense there", at, r)}
	}
}

// ours tells that a refusal is about how we came, not about the message: that
// authentication or encryption is missing, or commands in a wrong order. The
// message waits until that is repaired.
func (r reply) ours() bool { return r.code == 530 || r.code == 538 || r.code == 503 || r.code == 421 }

// badAddress tells that it is the recipient who is refused for good.
func (r reply) badAddress(at stage) bool {
	switch r.enhanced {
	case "5.1.1", "5.1.2", "5.1.3", "5.1.6", "5.1.10", "5.2.1":
		return at == stageRcpt || at == stageContent
	case "":
		// Without RFC 3463 the plain code has to do; after the content it is as
		// often about the content.
		return at == stageRcpt && (r.code == 550 || r.code == 551 || r.code == 553)
	}
	return false
}

// retryAfter finds "in 300 seconds" or "in 5 minutes", as greylisting servers
// say it.
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
