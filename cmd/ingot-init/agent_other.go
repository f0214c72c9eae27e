//go:build !linux

package main

import "errors"

func runAgent(string) (status int, err error) {
	return 0, errors.New("the agent needs Linux")
}
