package cli_test

// scenario is a command whose output is kept.
type scenario struct {
	name string
	args []string
}

// digestScenarios are about digests of notifications.
var digestScenarios = []scenario{
	{"notifications-digest", []string{"notifications", "digest", "comments", "--client", "sender",
		"--client-secret", "x"}},
	{"notifications-digest-set", []string{"notifications", "digest", "comments", "--window", "1h", "--max", "50", "--key",
		"thread.id", "--channels", "email", "--client", "sender", "--client-secret", "x"}},
	{"notifications-digest-delete", []string{"notifications", "digest", "comments", "--delete", "--client", "sender",
		"--client-secret", "x"}},
	{"notifications-digest-wrong", []string{"notifications", "digest", "comments", "--delete", "--max", "3"}},
}
