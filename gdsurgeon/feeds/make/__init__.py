"""Values for inputs: numbers, texts, encoded images and sounds."""
