package sample

import (
	"bytes"
	"errors"
	"os"
)

// InstanceVariable is the environment variable with the guid of the app instance.
const InstanceVariable = "CF_INSTANCE_GUID"

// ProcessVariable returns an environment variable of a process, from its file
// /proc/ID/environ.
func ProcessVariable(file, name string) (string, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	if len(text) == 0 {
		return "", errors.New("the process has no environment any more")
	}
	for pair := range bytes.SplitSeq(text, []byte{0}) {
		if value, ok := bytes.CutPrefix(pair, []byte(name+"=")); ok {
			return string(value), nil
		}
	}
	return "", nil
}
