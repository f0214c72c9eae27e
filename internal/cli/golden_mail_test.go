package cli_test

func init() {
	own := []string{"--client", "sender", "--client-secret", "x"}
	send := func(name string, args ...string) {
		args = append(append([]string{"notifications", "send", "disk-full", "--email", "ann@example.com"}, args...), own...)
		scenarios = append(scenarios, struct {
			name string
			args []string
		}{name, args})
	}
	send("notifications-send-files", "--html", "<img src='cid:logo'>", "--attach", "mail.txt", "--inline", "logo=mail.txt")
	send("notifications-send-no-file", "--text", "t", "--attach", "none.pdf")
	send("notifications-send-inline-wrong", "--text", "t", "--inline", "logo.png")
}
