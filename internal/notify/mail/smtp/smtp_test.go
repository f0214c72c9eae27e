package smtp

import (
	"bufio"
	"context"
	"net"
	"strings"
	"testing"
	"time"
)

func TestReadReply(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"250 ok\r\n":                                "250 ok",
		"250\r\n":                                   "250 ",
		"250-a\r\n250-b\r\n250 c\r\n":               "250 a b c",
		"550 5.1.1 no such user\r\n":                "550 5.1.1 no such user",
		"550 5.1.1 \x1b[31mred\x07\r\n":             "550 5.1.1 [31mred",
		"250 2.0.0 Ok\r\n":                          "250 2.0.0",
		"250 " + strings.Repeat("x", 1000) + "\r\n": "250 " + strings.Repeat("x", 396) + "…",
	} {
		r, err := readReply(bufio.NewReaderSize(strings.NewReader(in), 2*maxReplyLine))
		if err != nil || strings.TrimSpace(r.String()) != strings.TrimSpace(want) {
			t.Errorf("%q is %q, %v", in, r, err)
		}
	}
	for _, bad := range []string{
		"", "250", "250 ok", "250 ok\n", "25 ok\r\n", "150 ok\r\n", "650 ok\r\n", "260 ok\r\n", "abc\r\n", "250_ok\r\n",
		"2500 ok\r\n", "\r\n", " 250 ok\r\n",
		"250-a\r\n", "250-a\r\n251 b\r\n", "250-a\r\nhello\r\n", "250 " + strings.Repeat("x", 5000) + "\r\n",
		strings.Repeat("250-a\r\n", 200) + "250 b\r\n",
	} {
		if r, err := readReply(bufio.NewReaderSize(strings.NewReader(bad), 2*maxReplyLine)); err == nil {
			t.Errorf("%q is taken for %q", bad, r)
		}
	}
}

func FuzzReadReply(f *testing.F) {
	for _, s := range []string{"250 ok\r\n", "250-a\r\n250 b\r\n", "550 5.1.1 x\r\n", "\x00", "250-a\r\n251 b\r\n"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		r, err := readReply(bufio.NewReaderSize(strings.NewReader(s), 2*maxReplyLine))
		if err != nil {
			return
		}
		if r.code < 200 || r.code > 559 || strings.ContainsAny(r.String(), "\r\n\x00") || len(r.String()) > 500 {
			t.Fatalf("%q became %+v", s, r)
		}
		for at := stageMail; at <= stageContent; at++ {
			if got := r.result(at); got.Verdict == 0 || got.Reason == "" {
				t.Fatalf("%q at the %s became %+v", s, at, got)
			}
		}
	})
}

func TestParseURL(t *testing.T) {
	t.Parallel()
	for raw, check := range map[string]func(Config) bool{
		"smtp://mail.example": func(c Config) bool {
			return c.String() == "mail.example:25" && c.starttls == startOpportunistic && !c.verified()
		},
		"smtps://mail.example": func(c Config) bool { return c.String() == "mail.example:465" && c.Implicit && c.verified() },
		"smtp://u:p@mail.example:587": func(c Config) bool {
			return c.user == "u" && c.password == "p" && c.starttls == startRequired && c.verified()
		},
		"smtp://u:p%40%2F@localhost:25": func(c Config) bool {
			return c.password == "p@/" &&
				c.starttls == startOpportunistic && c.verified()
		},
		"smtp://[::1]:2525/": func(c Config) bool { return c.String() == "[::1]:2525" },
		"smtp://h?starttls=never&connections=3&messages=7": func(c Config) bool {
			return c.starttls == startNever &&
				c.Connections == 3 && c.Messages == 7
		},
		"smtp://h?domain-connections=2&timeout=5s&idle=1m": func(c Config) bool {
			return c.DomainConnections == 2 && c.Timeout == 5*time.Second && c.Idle == time.Minute
		},
		"smtp://u:p@h?auth=cram-md5&ehlo=me.example&insecure=1": func(c Config) bool {
			return c.auth == "CRAM-MD5" &&
				c.Name == "me.example" && !c.verified()
		},
	} {
		if c, err := ParseURL(raw); err != nil || !check(c) {
			t.Errorf("%q is %+v, %v", raw, c, err)
		}
	}
	for _, bad := range []string{
		"", "mail.example", "http://h", "smtp://", "smtp://:25", "smtp://h/path", "smtp://h#x", "smtp:h", "smtp://h:port",
		"smtp://u:s3cret@h:%zz", "smtp://:s3cret@h",
		"smtp://u:s3cret%00@h", "smtp://h?starttls=maybe", "smtps://h?starttls=required", "smtp://h?auth=plain",
		"smtp://u:s3cret@h?auth=ntlm", "smtp://h?connections=0",
		"smtp://h?connections=-1", "smtp://h?connections=100000", "smtp://h?timeout=5", "smtp://h?idle=0s", "smtp://h?what=1",
		"smtp://h?ehlo=a%0d%0ab", "smtp://h?insecure=perhaps",
		"smtp://h?timeout=1s&timeout=2s", "smtp://u:s3cret\x7f@h", "smtp://h?%zz",
	} {
		if _, err := ParseURL(bad); err == nil {
			t.Errorf("%q is taken", bad)
		} else if strings.Contains(err.Error(), "s3cret") {
			t.Errorf("the password is in %q", err)
		}
	}
}

// script is a server that says what it is told to, one step for each line it
// reads.
func script(t *testing.T, steps ...string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		nc, err := l.Accept()
		if err != nil {
			return
		}
		defer nc.Close()
		r := bufio.NewReader(nc)
		for i, step := range steps {
			if i > 0 {
				if _, err := r.ReadString('\n'); err != nil {
					return
				}
			}
			if _, err := nc.Write([]byte(step)); err != nil {
				return
			}
		}
		_, _ = r.ReadString('\n')
	}()
	return l.Addr().String()
}

func TestDialRefuses(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		steps []string
		query string
		want  string
	}{
		"injection behind STARTTLS": {[]string{"220 hi\r\n", "250-h\r\n250 STARTTLS\r\n", "220 go\r\n250 injected\r\n"}, "",
			"possible man in the middle"},
		"garbage greeting":  {[]string{"hello\r\n"}, "", "invalid SMTP reply"},
		"refused greeting":  {[]string{"554 no service\r\n"}, "", "554 no service"},
		"busy":              {[]string{"421 too busy\r\n"}, "", "421 too busy"},
		"no greeting":       {[]string{""}, "timeout=100ms", "timeout|deadline"},
		"closed after EHLO": {[]string{"220 hi\r\n", "421 bye\r\n"}, "", "421 bye"},
		"STARTTLS refused": {[]string{"220 hi\r\n", "250-h\r\n250 STARTTLS\r\n", "454 no\r\n"},
			"starttls=required", "454 no"},
		"HELO refused too": {[]string{"220 hi\r\n", "502 what\r\n", "502 what\r\n"}, "", "HELO"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			config, err := ParseURL("smtp://" + script(t, test.steps...) + "?" + test.query)
			if err != nil {
				t.Fatal(err)
			}
			c, err := dial(t.Context(), &config)
			if err == nil {
				c.close()
				t.Fatal("the connection is taken")
			}
			found := false
			for _, want := range strings.Split(test.want, "|") {
				found = found || strings.Contains(err.Error(), want)
			}
			if !found {
				t.Errorf("%v, want %q", err, test.want)
			}
		})
	}
}

func TestDialOldServer(t *testing.T) {
	t.Parallel()
	config, err := ParseURL("smtp://" + script(t, "220-two\r\n220 lines\r\n", "502 EHLO unknown\r\n", "250 hello\r\n",
		"221 bye\r\n"))
	if err != nil {
		t.Fatal(err)
	}
	c, err := dial(t.Context(), &config)
	if err != nil {
		t.Fatal(err)
	}
	if c.pipelining || c.utf8 || c.sized {
		t.Error("extensions out of nothing")
	}
	c.quit()
}

func TestDialEndsWithContext(t *testing.T) {
	t.Parallel()
	config, err := ParseURL("smtp://" + script(t, ""))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := dial(ctx, &config); err == nil {
		t.Error("connected to a server that says nothing")
	}
}

// A password does not go over a line that is neither encrypted nor local.
func TestNoPasswordInTheClear(t *testing.T) {
	t.Parallel()
	config := Config{Host: "h", user: "u", password: "s3cret", Timeout: time.Second}
	c := &conn{config: &config, auth: []string{"PLAIN"}}
	c.use(&farAway{})
	if err := c.authenticate(); err == nil || !strings.Contains(err.Error(), "in the clear") {
		t.Errorf("error is %v, want a refusal to send it in the clear", err)
	}
}

type farAway struct{ net.Conn }

func (*farAway) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 25} }
