package drain

// Check says what is wrong with the address of a drain, without repeating it.
func Check(rawURL string) error {
	_, err := parseTarget(&Drain{URL: rawURL}, nil)
	return err
}
