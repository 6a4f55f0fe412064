// Reads forms as Go's servers do: a line of JSON for each form in, what was taken for its fields out.
package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"net/http"
	"os"
)

func read(kind string, body []byte) [][2]string {
	request, err := http.NewRequest("POST", "/", bytes.NewReader(body))
	if err != nil {
		return nil
	}
	request.Header.Set("Content-Type", kind)
	if request.ParseMultipartForm(1<<20) != nil {
		return nil
	}
	fields := [][2]string{}
	for name, values := range request.MultipartForm.Value {
		for _, value := range values {
			fields = append(fields, [2]string{name, value})
		}
	}
	return fields
}

func main() {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<24)
	out := json.NewEncoder(os.Stdout)
	for lines.Scan() {
		var asked struct {
			Type string
			Body []byte
		}
		if err := json.Unmarshal(lines.Bytes(), &asked); err != nil {
			panic(err)
		}
		_ = out.Encode(map[string][][2]string{"Go": read(asked.Type, asked.Body)})
	}
}
