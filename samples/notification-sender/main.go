// Notification-sender sends notifications: it registers a kind, creates a
// template, assigns it to the kind, and sends.
//
//	notification-sender                          serves a page with a form on $PORT
//	notification-sender send --to TO --text TEXT sends one notification and exits
//
// TO is everyone, user:GUID, space:GUID, org:GUID, scope:NAME or email:ADDRESS.
//
// Addresses and credentials come from a bound service (notifications from the
// marketplace, or a service whose credentials have notifications_url), or from the
// environment: NOTIFICATIONS_URL, AUTH_URL, CLIENT_ID and CLIENT_SECRET.
// PAGE_PASSWORD is the password of the user sender for the page.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"

	"ingot/samples/internal/sample"
)

func main() {
	sample.Main(func(ctx context.Context) error {
		return run(ctx, os.Args[1:], os.Getenv, os.Stdout)
	})
}

// pageUser is the name to log in with.
const pageUser = "sender"

// run is the program.
func run(ctx context.Context, args []string, getenv func(string) string, out io.Writer) error {
	c, err := configured(getenv)
	if err != nil {
		return err
	}
	s := newSender(c)
	if len(args) == 0 {
		password := getenv("PAGE_PASSWORD")
		if password == "" {
			return errors.New("notification-sender: PAGE_PASSWORD is not set: without a password, anyone who finds the page " +
				"could send to all users (cf set-env)")
		}
		return sample.ServeWeb(ctx, handler(s, sample.NewLogin(pageUser, password)))
	}
	if args[0] != "send" {
		return fmt.Errorf("unknown command %q: use 'send', or no command to serve the page", args[0])
	}
	var m message
	flags := flag.NewFlagSet("send", flag.ContinueOnError)
	flags.SetOutput(out)
	flags.StringVar(&m.To, "to", "everyone",
		"`recipients`: everyone, user:GUID, space:GUID, org:GUID, scope:NAME or email:ADDRESS")
	flags.StringVar(&m.Subject, "subject", "A notification", "the `subject`")
	flags.StringVar(&m.Text, "text", "", "the `text`")
	flags.StringVar(&m.HTML, "html", "", "the text as `HTML`, for mail programs that show it")
	flags.StringVar(&m.ReplyTo, "reply-to", "", "where answers go, an `address`")
	switch err := flags.Parse(args[1:]); {
	case errors.Is(err, flag.ErrHelp):
		return nil
	case err != nil:
		return err
	case flags.NArg() > 0:
		return fmt.Errorf("%q is left over: put texts with blanks into quotes", strings.Join(flags.Args(), " "))
	}
	steps, err := s.send(ctx, m)
	for _, step := range steps {
		fmt.Fprintln(out, step)
	}
	return err
}
