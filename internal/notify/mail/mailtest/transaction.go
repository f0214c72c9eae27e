package mailtest

import (
	"bytes"
	"errors"
	"strconv"
	"strings"
)

func contains(list []string, s string) bool {
	for _, l := range list {
		if l == s {
			return true
		}
	}
	return false
}

func itoa(n int) string { return strconv.Itoa(n) }

// path parses "MAIL FROM:<a@b> PARAM=…".
func path(line, verb string) (address string, params []string, ok bool) {
	if len(line) < len(verb) || !strings.EqualFold(line[:len(verb)], verb) || !strings.HasPrefix(line[len(verb):], "<") {
		return "", nil, false
	}
	address, rest, ok := strings.Cut(line[len(verb)+1:], ">")
	return address, strings.Fields(rest), ok
}

func (c *session) mailFrom(line string) error {
	from, params, ok := path(line, "MAIL FROM:")
	if !ok {
		c.violation("cannot read " + line)
		return c.write("501 5.5.4 cannot read the address\r\n")
	}
	if c.mail {
		c.violation("MAIL inside a transaction")
		return c.write("503 5.5.1 nested MAIL\r\n")
	}
	if len(c.options.Users) > 0 && c.user == "" {
		return c.write("530 5.7.0 authentication required\r\n")
	}
	c.from = from
	err := c.answer(Step{Stage: Mail}, "250 2.1.0 Ok\r\n")
	switch {
	case err == nil:
		c.mail = true
		c.utf8 = contains(params, "SMTPUTF8")
	case errors.Is(err, errRefused):
		c.clear()
		return nil
	}
	return err
}

func (c *session) rcptTo(line string) error {
	to, _, ok := path(line, "RCPT TO:")
	switch {
	case !ok:
		c.violation("cannot read " + line)
		return c.write("501 5.5.4 cannot read the address\r\n")
	case !c.mail:
		return c.write("503 5.5.1 MAIL first\r\n")
	case !c.utf8 && !ascii(to):
		c.violation("UTF-8 in an address without SMTPUTF8")
		return c.write("553 5.6.7 SMTPUTF8 needed\r\n")
	}
	c.to = to
	err := c.answer(Step{Stage: Rcpt}, "250 2.1.5 Ok\r\n")
	if err == nil {
		c.rcpt = true
	} else if errors.Is(err, errRefused) {
		return nil
	}
	return err
}

func ascii(s string) bool {
	for i := range len(s) {
		if s[i] >= 0x80 {
			return false
		}
	}
	return true
}

// data reads a message. If all recipients were rejected it replies 503, unless a
// fault for the stage replies 354.
func (c *session) data() error {
	usual := "354 go ahead\r\n"
	if !c.rcpt {
		if c.options.Fault != nil &&
			strings.HasPrefix(c.options.Fault(Step{Stage: Data, Connection: c.number, From: c.from, To: c.to}).Reply, "354") {
			if err := c.write(usual); err != nil {
				return err
			}
			return c.content()
		}
		return c.write("503 5.5.1 no valid recipient\r\n")
	}
	err := c.answer(Step{Stage: Data}, usual)
	if errors.Is(err, errRefused) {
		return nil
	}
	if err != nil {
		return err
	}
	return c.content()
}

var messageID = []byte("Message-ID: <")

func (c *session) content() error {
	if c.w.Flush() != nil {
		return errEnd
	}
	m := Message{Connection: c.number, From: c.from, To: c.to, UTF8: c.utf8}
	keep := c.options.Keep > 0
	var text []byte
	header := true
	size := 0
	for {
		line, err := c.r.ReadSlice('\n')
		if err != nil {
			return errEnd
		}
		if len(line) < 2 || line[len(line)-2] != '\r' {
			c.violation("a line of a message without CR LF")
		}
		if line[0] == '.' {
			if len(line) == 3 {
				break
			}
			line = line[1:]
		}
		size += len(line)
		if header {
			if bytes.HasPrefix(line, messageID) {
				id, _, _ := bytes.Cut(line[len(messageID):], []byte("@"))
				m.ID = string(id)
				if c.options.Content != nil {
					c.options.Content(c.number, c.previous, m.ID)
				}
				if c.options.Fault != nil {
					err := c.answer(Step{Stage: Content, ID: m.ID}, "")
					if err != nil && !errors.Is(err, errRefused) {
						return err
					}
				}
			}
			header = len(line) > 2
		}
		if keep {
			text = append(text, line...)
		}
	}
	if !c.rcpt {
		if size > 0 {
			c.violation("a message without a recipient")
		}
		c.clear()
		return c.write("554 5.5.1 no valid recipients\r\n")
	}
	m.Data = string(text)
	return c.dot(&m)
}

// dot replies to a message. It counts as accepted before the reply is written: a
// fault that loses the reply leaves an accepted message.

func (c *session) dot(m *Message) error {
	defer c.clear()
	if c.options.Fault == nil {
		c.accept(m)
		c.previous = m.ID
		return c.write("250 2.0.0 Ok\r\n")
	}
	err := c.answer(Step{Stage: Dot, ID: m.ID}, "250 2.0.0 Ok\r\n")
	switch {
	case errors.Is(err, errRefused):
		return nil
	case err == nil:
		c.previous = m.ID
		c.accept(m)
	case c.options.Fault(Step{Stage: Lost, ID: m.ID, Connection: c.number, To: m.To}).Taken:
		c.accept(m)
	}
	return err
}
